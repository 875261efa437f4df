// A server of the TypeScript SDK 1.x with tasks of 2025-11-25, over stdio: `node typescript_tasks_server.mjs FOLDER`.
import { createRequire } from "node:module";

const [folder] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const home = "@modelcontextprotocol/sdk";
const { McpServer } = load(`${home}/server/mcp.js`);
const { StdioServerTransport } = load(`${home}/server/stdio.js`);
const { InMemoryTaskStore, InMemoryTaskMessageQueue } = load(`${home}/experimental/tasks/stores/in-memory.js`);
const { ElicitResultSchema } = load(`${home}/types.js`);
const { z } = load("zod");

const tasks = { list: {}, cancel: {}, requests: { tools: { call: {} } } };
const options = { capabilities: { tasks }, taskStore: new InMemoryTaskStore(), taskMessageQueue: new InMemoryTaskMessageQueue() };
const server = new McpServer({ name: "typed-tasks", version: "1" }, options);

function addTask(name, taskSupport, inputSchema, work) {
  server.experimental.tasks.registerToolTask(name, { inputSchema, execution: { taskSupport } }, {
    async createTask(given, extra) {
      const task = await extra.taskStore.createTask({ ttl: 60000, pollInterval: 50 });
      const { taskId } = task;
      const keep = (status) => (result) => extra.taskStore.storeTaskResult(taskId, status, result).catch(() => {});
      work(given, extra, taskId).then(keep("completed"), (error) => keep("failed")({ isError: true, content: [{ type: "text", text: error.message }] }));
      return { task };
    },
    getTask: async (_, { taskId, taskStore }) => taskStore.getTask(taskId),
    getTaskResult: async (_, { taskId, taskStore }) => taskStore.getTaskResult(taskId),
  });
}

const text = (words) => ({ content: [{ type: "text", text: words }] });
addTask("render", "optional", { scene: z.string() }, async ({ scene }) => text(`rendered ${scene}`));
addTask("refuse", "optional", {}, async () => { throw new Error("Not on a Sunday."); });
addTask("hold", "required", {}, () => new Promise(() => {}));
addTask("paint", "required", {}, async (_, extra, taskId) => {
  const requestedSchema = { type: "object", properties: { style: { type: "string" } }, required: ["style"] };
  const params = { mode: "form", message: "Which style?", requestedSchema };
  const answer = await extra.sendRequest({ method: "elicitation/create", params }, ElicitResultSchema, { relatedTask: { taskId } });
  return text(`painted ${answer.content?.style ?? answer.action}`);
});
await server.connect(new StdioServerTransport());
