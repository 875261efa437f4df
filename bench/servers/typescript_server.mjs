// The same server on the TypeScript SDK. It declares no output schemas, which spares it work that the Python servers do.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const text = (value) => ({ content: [{ type: "text", text: value }] });

serveStdio(() => {
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
  for (let number = 0; number < 102; number++) {
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
});
