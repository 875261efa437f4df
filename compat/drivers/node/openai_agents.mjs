// The MCP servers of the OpenAI Agents SDK for JavaScript.
import { MCPServerSSE, MCPServerStdio, MCPServerStreamableHttp, getAllMcpTools } from "@openai/agents";
import { run } from "./tour.mjs";

run(async (kind, mode, [command, ...args]) => {
  const remote = kind === "sse" ? MCPServerSSE : MCPServerStreamableHttp;
  const server = kind === "stdio" ? new MCPServerStdio({ command, args }) : new remote({ url: command });
  await server.connect();
  await getAllMcpTools([server]);
  const tools = async () => (await server.listTools()).map(({ name }) => name);
  return {
    tools,
    refreshedTools: tools,
    call: (name, args) => server.callToolResult(name, args),
    resources: () => server.listResources(),
    templates: () => server.listResourceTemplates(),
    read: (uri) => server.readResource(uri),
    close: () => server.close(),
  };
});
