// LangChain's adapters for JavaScript, which throw where a tool fails.
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { run } from "./tour.mjs";

run(async (kind, mode, [command, ...args]) => {
  const remote = { transport: kind === "sse" ? "sse" : "http", url: command };
  const server = kind === "stdio" ? { transport: "stdio", command, args } : remote;
  const client = new MultiServerMCPClient({ mcpServers: { compat: server }, throwOnLoadError: true });
  const tools = new Map((await client.getTools()).map((tool) => [tool.name, tool]));
  return {
    tools: async () => [...tools.keys()],
    call: (name, args) => tools.get(name).invoke({ type: "tool_call", id: "1", name, args }),
    isError: (result) => result?.status === "error",
    close: () => client.close(),
  };
});
