"""Names that other libraries have for parts of a server, for errors that say what it is called here.

Each table has the public names of FastMCP and of the official SDK that do not exist here, with what to write in their
place, or the reason why there is nothing. A test compares the tables with the libraries themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_ANNOTATIONS = "say read_only=True, destructive=False, idempotent=True or open_world=False"
_NO_TAGS = "there are no tags; visible= of Server decides what a caller sees"
_VISIBLE = "visible= of Server decides what a caller sees; server.remove_tool removes a tool"
_TASKS = 'each tool says so: @server.tool(task="optional")'
_TASKS_OF_TOOLS = 'only tools run as tasks: @server.tool(task="optional")'
_TASK_STORE = "tasks are kept in store=… of server.run, and run by the server or by dovetail worker"
_SAME_HANDLER = "a handler is written the same whether it runs as a task or not"
_NO_APPS = "user interfaces are not part of it; say meta={…} to declare one yourself"
_NO_VERSIONS = "there is one version of everything; say Server(version=…), or put it into the name"
_FIRST = "pass the function as the first argument, without a name"
_SCOPES = "it is called scopes, and Server(auth=…) verifies tokens"
_META = "it is called meta"
_NOT_SCOPED = "Server(auth=…) verifies tokens, and visible= of Server decides what a caller sees"

TOOL_OPTIONS: Mapping[str, str] = {
    "annotations": _ANNOTATIONS,
    "structured_output": "it is called structured",
    "parameters": "it is called input_schema",
    "inputSchema": "it is called input_schema",
    "outputSchema": "it is called output_schema",
    "readOnlyHint": "it is called read_only",
    "read_only_hint": "it is called read_only",
    "destructiveHint": "it is called destructive",
    "destructive_hint": "it is called destructive",
    "idempotentHint": "it is called idempotent",
    "idempotent_hint": "it is called idempotent",
    "openWorldHint": "it is called open_world",
    "open_world_hint": "it is called open_world",
    "tags": _NO_TAGS,
    "enabled": _VISIBLE,
    "exclude_args": "give such arguments with functools.partial, which hides them from clients",
    "serializer": "return a string, or Text",
    "auth": _SCOPES,
    "app": _NO_APPS,
    "version": _NO_VERSIONS,
    "run_in_thread": "a plain def runs in a thread, an async def on the event loop",
    "name_or_fn": _FIRST,
    "fn": _FIRST,
    "_meta": _META,
}
"""Options of a tool elsewhere, with what to write here."""

PROMPT_OPTIONS: Mapping[str, str] = {
    "tags": _NO_TAGS,
    "enabled": _VISIBLE,
    "auth": _NOT_SCOPED,
    "task": _TASKS_OF_TOOLS,
    "version": _NO_VERSIONS,
    "name_or_fn": _FIRST,
    "fn": _FIRST,
    "_meta": _META,
}
RESOURCE_OPTIONS: Mapping[str, str] = {
    "tags": _NO_TAGS,
    "enabled": _VISIBLE,
    "auth": _NOT_SCOPED,
    "task": _TASKS_OF_TOOLS,
    "app": _NO_APPS,
    "version": _NO_VERSIONS,
    "security": "variables of a template never match a slash, unless it is written {path*} or {+path}",
    "_meta": _META,
    "mimeType": "it is called mime_type",
}

_AUTH = "it is an option of Server: Server(auth=…)"
_ALLOWED = "say allowed_hosts=[…] and allowed_origins=[…]"
_LOG_LEVEL = "set the level of the logger 'dovetail'"

HTTP_OPTIONS: Mapping[str, str] = {
    "stateless_http": "say sessions=False",
    "stateless": "say sessions=False",
    "streamable_http_path": "it is called path",
    "sse_path": "HTTP+SSE is at /sse",
    "message_path": "HTTP+SSE is at /sse and /messages",
    "mount_path": "mount server.asgi() in an application",
    "event_store": "it is called store",
    "retry_interval": "it is called poll_seconds",
    "transport_security": _ALLOWED,
    "host_origin_protection": f"it is always on; {_ALLOWED}",
    "max_request_body_size": "it is called max_body",
    "session_idle_timeout": "it is called session_idle",
    "middleware": "wrap server.asgi() for middleware of HTTP; server.use adds middleware of MCP",
    "custom_starlette_routes": "add routes to the application that server.asgi() is mounted in",
    "auth": _AUTH,
    "auth_server_provider": "Server(auth=…) verifies the tokens of an authorization server; there is none in it",
    "token_verifier": _AUTH,
    "log_level": _LOG_LEVEL,
    "debug": _LOG_LEVEL,
    "uvicorn_config": "run server.asgi() with uvicorn",
    "sockets": "run server.asgi() with uvicorn, or say uds=… for a Unix socket",
    "show_banner": "there is none",
}

_AT_RUN = 'it is an option of server.run("http", …) and server.asgi(…)'
_DUPLICATES = "a name that is in use is always an error; server.remove_tool makes room for another"
_DECORATE = "write @server.tool, @server.resource and @server.prompt on the functions"
_SUBSCRIBE = "clients subscribe by themselves; server.notify_resource_updated(uri) tells them of a change"

CONSTRUCTOR_OPTIONS: Mapping[str, str] = {
    "host": _AT_RUN,
    "port": _AT_RUN,
    "json_response": _AT_RUN,
    "max_sessions": _AT_RUN,
    **{
        name: f"{HTTP_OPTIONS[name]}, in server.run and server.asgi"
        for name in (
            "event_store",
            "max_request_body_size",
            "retry_interval",
            "session_idle_timeout",
            "stateless_http",
            "streamable_http_path",
            "transport_security",
        )
    },
    **{name: HTTP_OPTIONS[name] for name in ("auth_server_provider", "message_path", "mount_path", "sse_path")},
    "token_verifier": "it is called auth",
    "log_level": _LOG_LEVEL,
    "debug": _LOG_LEVEL,
    "client_log_level": "each client sets its own level",
    "tools": "write server.tool(function) for each",
    "resources": "write server.resource(uri)(function) for each",
    "on_duplicate": _DUPLICATES,
    "on_duplicate_tools": _DUPLICATES,
    "on_duplicate_resources": _DUPLICATES,
    "on_duplicate_prompts": _DUPLICATES,
    "warn_on_duplicate_tools": _DUPLICATES,
    "warn_on_duplicate_resources": _DUPLICATES,
    "warn_on_duplicate_prompts": _DUPLICATES,
    "mask_error_details": "write server.use(MaskErrors()), from dovetail.middleware",
    "strict_input_validation": "arguments are always validated; lenient_arguments=True repairs mistakes of models",
    "dereference_schemas": "schemas of types that occur once have no $ref; give input_schema=… to write one yourself",
    "include_tags": _NO_TAGS,
    "exclude_tags": _NO_TAGS,
    "include_fastmcp_meta": "there is no such metadata; say meta={…}",
    "tool_serializer": TOOL_OPTIONS["serializer"],
    "tool_transformations": "register another function that calls the tool's",
    "transforms": "write a middleware, or register other functions",
    "providers": "write server.mount(other) for another server",
    "list_page_size": "it is called page_size",
    "cache_hints": "it is called list_ttl; a resource has ttl= and public=",
    "cache_ttl": "it is called list_ttl; a resource has ttl= and public=",
    "cache_scope": "a resource has public=",
    "experimental_capabilities": "it is called experimental",
    "dependencies": "name them in pyproject.toml, or in the script's own metadata",
    "tasks": _TASKS,
    "session_state_store": "keep it in ctx.lifespan; the sessions of HTTP are kept in store=… of server.run",
    "sampling_handler": "ctx.sample asks the client's model, and no other",
    "sampling_handler_behavior": "ctx.sample asks the client's model, and no other",
    "resource_security": RESOURCE_OPTIONS["security"],
    "request_state_security": "state is always encrypted; say state_keys=[…] for the keys",
    "subscriptions": "clients may always subscribe",
    "get_tool_input_schema": "write server.tool(function, input_schema=…) for each tool",
    "on_list_tools": _DECORATE,
    "on_call_tool": _DECORATE,
    "on_list_resources": _DECORATE,
    "on_list_resource_templates": _DECORATE,
    "on_read_resource": _DECORATE,
    "on_list_prompts": _DECORATE,
    "on_get_prompt": _DECORATE,
    "on_completion": "write @server.completion(reference, argument) for each argument",
    "on_subscribe_resource": _SUBSCRIBE,
    "on_unsubscribe_resource": _SUBSCRIBE,
    "on_subscriptions_listen": _SUBSCRIBE,
    "on_set_logging_level": "ctx.log sends what the client asked for",
    "on_ping": "pings are answered already",
    "on_progress": "write await ctx.request(method, params, progress=…)",
    "on_roots_list_changed": "write await ctx.roots() when they are needed",
}
"""Options of the constructor elsewhere, with what to write here."""

MOUNT_OPTIONS: Mapping[str, str] = {
    "namespace": "it is called prefix",
    "server": "pass the server as the first argument, without a name",
    "as_proxy": "a mounted server always has its own lifespan and middleware",
    "tool_names": "give the tools their names where they are registered",
}

ELICIT_OPTIONS: Mapping[str, str] = {
    "schema": "it is called form",
    "response_type": "it is called form",
    "response_title": "write a form with one field, and its title in Param",
    "response_description": "write a form with one field, and its description in Param",
}
SAMPLE_OPTIONS: Mapping[str, str] = {
    "messages": "it is called prompt",
    "system_prompt": "it is called system",
    "model_preferences": "say models=[…], cost=…, speed=… or intelligence=…",
    "stop_sequences": "it is called stop",
    "result_type": "ask for JSON in the prompt, and decode the text of the result",
    "tool_concurrency": "ctx.sample makes one request; run the tools that it asks for yourself",
    "mask_error_details": CONSTRUCTOR_OPTIONS["mask_error_details"],
}

_RUN = "write server.run(…), or await server.run_async(…) on a running event loop"
_ASGI = "write server.asgi(…)"
_LISTS = "connect a client: async with Client(server) as client"
_TOOLS = f"{_LISTS}: await client.tools()"
_RESOURCES = f"{_LISTS}: await client.resources()"
_TEMPLATES = f"{_LISTS}: await client.resource_templates()"
_PROMPTS = f"{_LISTS}: await client.prompts()"
_GET_PROMPT = f"{_LISTS}: await client.prompt(name, …); to register prompts, write server.prompt(function, …)"
_METHODS = "Extension adds methods: Server(extensions=[…])"
_INFO = "it is in server.info"
_PROXY = "write a server whose tools call a Client"
_OPENAPI = "it makes no servers from OpenAPI; write a tool for each operation"
_ON_CONTEXT = "handlers declare a parameter ctx: Context"

SERVER_MEMBERS: Mapping[str, str] = {
    "add_tool": "write server.tool(function, …)",
    "add_resource": "write server.resource(uri, …)(function)",
    "add_template": "write server.resource(uri_template, …)(function)",
    "add_prompt": "write server.prompt(function, …)",
    "add_middleware": "write server.use(middleware)",
    "middleware": "write server.use(middleware)",
    "add_completion_handler": "write @server.completion(reference, argument)",
    "add_extension": "write Server(extensions=[…])",
    "extensions": "write Server(extensions=[…])",
    "required_extensions": "check ctx.client_capabilities.extensions in a handler",
    "add_provider": CONSTRUCTOR_OPTIONS["providers"],
    "providers": CONSTRUCTOR_OPTIONS["providers"],
    "local_provider": CONSTRUCTOR_OPTIONS["providers"],
    "provider_error_strategy": CONSTRUCTOR_OPTIONS["providers"],
    "add_transform": CONSTRUCTOR_OPTIONS["transforms"],
    "transforms": CONSTRUCTOR_OPTIONS["transforms"],
    "wrap_transform": CONSTRUCTOR_OPTIONS["transforms"],
    "add_tool_transformation": CONSTRUCTOR_OPTIONS["tool_transformations"],
    "remove_tool_transformation": CONSTRUCTOR_OPTIONS["tool_transformations"],
    "add_request_handler": _METHODS,
    "add_notification_handler": _METHODS,
    "get_request_handler": _METHODS,
    "get_notification_handler": _METHODS,
    "request_handlers": _METHODS,
    "notification_handlers": _METHODS,
    "custom_route": "add routes to the application that server.asgi() is mounted in",
    "run_stdio_async": "write await server.run_async()",
    "run_http_async": 'write await server.run_async("http", …)',
    "run_streamable_http_async": 'write await server.run_async("http", …)',
    "run_sse_async": 'write await server.run_async("http", …)',
    "http_app": _ASGI,
    "streamable_http_app": _ASGI,
    "session_manager": f"{_ASGI}, which needs no lifespan around it",
    "sse_app": f"{_ASGI}, which serves HTTP+SSE too",
    "list_tools": f"{_TOOLS}; to register tools one by one, write server.tool(function, …)",
    "list_resources": _RESOURCES,
    "list_resource_templates": _TEMPLATES,
    "list_prompts": _PROMPTS,
    "get_tool": _TOOLS,
    "get_tools": _TOOLS,
    "get_app_tool": _TOOLS,
    "get_tool_by_hash": _TOOLS,
    "get_tool_input_schema": _TOOLS,
    "get_resource": _RESOURCES,
    "get_resources": _RESOURCES,
    "get_resource_template": _TEMPLATES,
    "get_resource_templates": _TEMPLATES,
    "get_prompts": _PROMPTS,
    "get_prompt": _GET_PROMPT,
    "render_prompt": _GET_PROMPT,
    "call_tool": f"{_LISTS}: await client.call(name, …); to register tools, write server.tool(function, …)",
    "read_resource": f"{_LISTS}: await client.read(uri)",
    "subscribe_resource": _SUBSCRIBE,
    "unsubscribe_resource": _SUBSCRIBE,
    "set_logging_level": CONSTRUCTOR_OPTIONS["on_set_logging_level"],
    "progress_notification": CONSTRUCTOR_OPTIONS["on_progress"],
    "create_initialization_options": _RUN,
    "get_capabilities": f"{_LISTS}: client.capabilities",
    "get_context": _ON_CONTEXT,
    "request_context": _ON_CONTEXT,
    "import_server": "write server.mount(other, prefix=…)",
    "as_proxy": _PROXY,
    "from_openapi": _OPENAPI,
    "from_fastapi": "mount server.asgi() in the FastAPI application, and write a tool for each operation",
    "settings": "HTTP is configured with options of server.run and server.asgi",
    "dependencies": CONSTRUCTOR_OPTIONS["dependencies"],
    "enable": _VISIBLE,
    "disable": _VISIBLE,
    "include_tags": _NO_TAGS,
    "exclude_tags": _NO_TAGS,
    "include_fastmcp_meta": CONSTRUCTOR_OPTIONS["include_fastmcp_meta"],
    "docket": _TASK_STORE,
    "get_tasks": _TASK_STORE,
    "experimental": _TASKS,
    "experimental_capabilities": "write Server(experimental={…})",
    "cache_hints": "write Server(list_ttl=…)",
    "strict_input_validation": CONSTRUCTOR_OPTIONS["strict_input_validation"],
    "client_log_level": CONSTRUCTOR_OPTIONS["client_log_level"],
    "sampling_handler": CONSTRUCTOR_OPTIONS["sampling_handler"],
    "sampling_handler_behavior": CONSTRUCTOR_OPTIONS["sampling_handler"],
    "auth": "write Server(auth=…)",
    "lifespan": "write Server(lifespan=…); its value is ctx.lifespan",
    "generate_name": "a server needs a name of its own",
    "name": f"{_INFO}: server.info.name",
    "title": f"{_INFO}: server.info.title",
    "version": f"{_INFO}: server.info.version",
    "description": f"{_INFO}: server.info.description",
    "website_url": f"{_INFO}: server.info.website_url",
    "icons": f"{_INFO}: server.info.icons",
    "server_info": "it is called server.info",
    "server_info_stamp": "it is called server.info",
}
"""Attributes of servers elsewhere, with what to write here."""

_STATE = "keep it in ctx.lifespan, or in a contextvar of a middleware"
_SAME_PROGRAM = "call the function that makes it, or connect a client: async with Client(ctx.server) as client"
_CHANGED = "write ctx.server.notify_{}_changed()"
_STREAM = "write ctx.close_stream()"

CONTEXT_MEMBERS: Mapping[str, str] = {
    "report_progress": "write await ctx.progress(done, total, message)",
    "debug": "write await ctx.log.debug(…)",
    "info": "write await ctx.log.info(…)",
    "warning": "write await ctx.log.warning(…)",
    "error": "write await ctx.log.error(…)",
    "session": "ctx.sample, ctx.elicit, ctx.roots and ctx.notify reach the client",
    "session_id": "read the header Mcp-Session-Id from ctx.headers; newer revisions have no sessions",
    "request_context": "ctx.lifespan is the value of the lifespan, ctx.meta the _meta of the request",
    "lifespan_context": "it is called ctx.lifespan",
    "fastmcp": "it is called ctx.server",
    "mcp_server": "it is called ctx.server",
    "client_id": "it is called ctx.principal",
    "client_supports_extension": "look into ctx.client_capabilities.extensions",
    "client_extension_settings": "look into ctx.client_capabilities.extensions",
    "protocol_version": "it is called ctx.revision",
    "input_responses": "it is called ctx.answers",
    "request_state": "it is called ctx.state",
    "origin_request_id": "it is called ctx.request_id",
    "transport": "a handler does not depend on it; ctx.headers is empty unless it is HTTP",
    "list_roots": "write await ctx.roots()",
    "create_message": "write await ctx.sample(…)",
    "sample_step": "write await ctx.sample(…)",
    "read_resource": f"{_SAME_PROGRAM}: await client.read(uri)",
    "list_resources": f"{_SAME_PROGRAM}: await client.resources()",
    "list_prompts": f"{_SAME_PROGRAM}: await client.prompts()",
    "get_prompt": f"{_SAME_PROGRAM}: await client.prompt(name, …)",
    "get_state": _STATE,
    "set_state": _STATE,
    "delete_state": _STATE,
    "send_notification": "write ctx.notify(method, params)",
    "send_tool_list_changed": _CHANGED.format("tools"),
    "send_resource_list_changed": _CHANGED.format("resources"),
    "send_prompt_list_changed": _CHANGED.format("prompts"),
    "notify_tools_changed": _CHANGED.format("tools"),
    "notify_resources_changed": _CHANGED.format("resources"),
    "notify_prompts_changed": _CHANGED.format("prompts"),
    "notify_resource_updated": "write ctx.server.notify_resource_updated(uri)",
    "close_sse_stream": _STREAM,
    "close_standalone_sse_stream": _STREAM,
    "enable_components": _VISIBLE,
    "disable_components": _VISIBLE,
    "reset_visibility": _VISIBLE,
    "is_background_task": _SAME_HANDLER,
    "task_id": _SAME_HANDLER,
}
"""Attributes of the context elsewhere, with what to write here."""


def unknown_options(noun: str, unknown: Iterable[str], names: Mapping[str, str], known: Iterable[str] = ()) -> str:
    """The text of an error about options that do not exist, with what they are called here, or the nearest `known`."""
    given = sorted(unknown)
    said = {name: advice_for(name, names, known) for name in given}
    advice = [text if len(given) == 1 else f"{name}: {text}" for name, text in said.items() if text is not None]
    return "; ".join([f"{noun} has no option {', '.join(given)}", *advice])


def advice_for(name: str, names: Mapping[str, str], known: Iterable[str]) -> str | None:
    """What to write in place of an option that does not exist: by its name elsewhere, or by one that resembles it."""
    if name in names:
        return names[name]
    if (near := _nearest(name, known)) is not None:
        return f"did you mean {near}?"
    other = _nearest(name, names)
    return None if other is None else f"if you mean {other}: {names[other]}"


def _nearest(name: str, known: Iterable[str]) -> str | None:
    import difflib

    plain = {option.replace("_", ""): option for option in known}
    near = difflib.get_close_matches(name.lower().replace("_", ""), list(plain), 1)
    return plain[near[0]] if near else None


def refuse_assignment(name: str, options: Iterable[str]) -> None:
    """Raise AttributeError if an option of `Server` is assigned to a server that exists, where it has no effect."""
    if name in options:
        raise AttributeError(
            f"{name} is an option of Server, and assigning it has no effect; write Server(…, {name}=…). "
            "For a server that another module made, mount it in one with that option"
        )


def unknown_member(owner: str, name: str, names: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that does not exist."""
    advice = f"; {names[name]}" if name in names else ""
    return AttributeError(f"{owner} has no attribute {name!r}{advice}", name=name)
