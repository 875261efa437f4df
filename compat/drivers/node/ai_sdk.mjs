// The MCP client of the AI SDK; calls go through its tools, as a model's would.
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";
import { run } from "./tour.mjs";

run(async (kind, mode, [command, ...args]) => {
  const remote = { type: kind === "sse" ? "sse" : "http", url: command };
  const client = await createMCPClient({ transport: kind === "stdio" ? new StdioTransport({ command, args }) : remote });
  const tools = await client.tools();
  return {
    tools: async () => Object.keys(tools),
    refreshedTools: async () => Object.keys(await client.tools()),
    call: (name, args) => tools[name].execute(args, { toolCallId: "1", messages: [] }),
    resources: () => client.listResources(),
    templates: () => client.listResourceTemplates(),
    read: (uri) => client.readResource({ uri }),
    prompts: () => client.experimental_listPrompts?.() ?? client.listPrompts(),
    prompt: (name, args) => (client.experimental_getPrompt ?? client.getPrompt).call(client, { name, arguments: args }),
    close: () => client.close(),
  };
});
