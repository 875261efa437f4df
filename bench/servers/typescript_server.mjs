// The same server on the TypeScript SDK, `[http [OTHERS]]`. It declares no output schemas, which spares it work that
// the Python servers do. Over HTTP it has the SDK's handler for 2026-07-28, and a transport a session before that.
import { randomUUID } from "node:crypto";
import { McpServer, WebStandardStreamableHTTPServerTransport, createMcpHandler } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const text = (value) => ({ content: [{ type: "text", text: value }] });

const others = Number(process.argv[3] ?? 102);

const build = () => {
  const server = new McpServer({ name: "bench", version: "1.0.0" });

  server.registerTool(
    "echo",
    { description: "Return the text as it came.", inputSchema: z.object({ text: z.string() }) },
    async (args) => text(args.text),
  );
  server.registerTool(
    "echo_sync",
    { description: "Return the text as it came, from a plain function.", inputSchema: z.object({ text: z.string() }) },
    (args) => text(args.text),
  );
  server.registerTool(
    "count",
    { description: "Report progress a number of times.", inputSchema: z.object({ steps: z.number().int() }) },
    async ({ steps }, ctx) => {
      const progressToken = ctx.mcpReq._meta?.progressToken;
      for (let step = 1; step <= steps; step++) {
        await ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress: step, total: steps } });
      }
      return text(String(steps));
    },
  );
  for (let number = 0; number < others; number++) {
    server.registerTool(
      `forecast_${number}`,
      {
        description: "Look up the weather of a city.",
        inputSchema: z.object({
          city: z.string().describe("Name of the city, or its code."),
          days: z.number().int().default(3).describe("How many days to look ahead."),
          units: z.enum(["metric", "imperial"]).default("metric").describe("Units of the answer."),
        }),
      },
      async ({ city, days, units }) => text(`${city} ${days} ${units}`),
    );
  }
  return server;
};

const serveHttp = async () => {
  const { serve } = await import("@hono/node-server");
  const modern = createMcpHandler(build, { legacy: "reject" });
  const sessions = new Map();

  const open = async () => {
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
    });
    await build().connect(transport);
    return transport;
  };
  const fetch = async (request) => {
    if (request.headers.get("mcp-protocol-version") === "2026-07-28") return modern.fetch(request);
    const id = request.headers.get("mcp-session-id");
    const transport = id ? sessions.get(id) : await open();
    return transport ? transport.handleRequest(request) : new Response(null, { status: 404 });
  };
  serve({ fetch, hostname: "127.0.0.1", port: 0 }, ({ port }) => console.log(port));
};

if (process.argv[2] === "http") await serveHttp();
else serveStdio(build);
