// The tour of compat/server.py for clients written in JavaScript; it makes the checks of ../tour.py.
// A driver gives a function that connects; a method that its adapter lacks is a feature that the client does not have.
//
//     node DRIVER TRANSPORT MODE RESULT TARGET...       a target is a command, or a URL
import { readFileSync, writeFileSync } from "node:fs";

const CHECK_SECONDS = 20;
const LARGE = 300_000;
const REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
const table = JSON.parse(readFileSync(new URL("calls.json", import.meta.url)));

export const shown = (value) => JSON.stringify(value, (_, part) => (typeof part === "bigint" ? String(part) : part)) ?? "";

const told = (problem) => [problem?.name, problem?.message ?? String(problem), problem?.cause?.message].filter(Boolean).join(": ");

function ensure(condition, message) {
  if (!condition) throw new Error(message);
}

async function contains(work, ...parts) {
  const text = shown(await work);
  const missing = parts.filter((part) => !text.includes(part));
  ensure(missing.length === 0, `${missing} not in ${text.slice(0, 300)}`);
}

async function fails(work) {
  let result;
  try {
    result = await work;
  } catch {
    return;
  }
  throw new Error(`no error: ${shown(result).slice(0, 300)}`);
}

export async function until(done, seconds = 10) {
  const end = Date.now() + seconds * 1000;
  while (!(await done())) {
    ensure(Date.now() < end, "it did not happen in time");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

class Tour {
  constructor(adapter) {
    this.adapter = adapter;
    this.checks = {};
    this.revision = null;
  }

  async check(name, work) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no end within ${CHECK_SECONDS} s`)), CHECK_SECONDS * 1000);
    });
    try {
      await Promise.race([work(), late]);
      this.checks[name] = "";
    } catch (problem) {
      this.checks[name] = told(problem).slice(0, 1500) || "it failed";
    }
    clearTimeout(timer);
    console.error(`${name}: ${this.checks[name] || "ok"}`);
  }

  isError(result) {
    return this.adapter.isError ? this.adapter.isError(result) : Boolean(result?.isError);
  }

  async call(tool, args, parts) {
    const result = await this.adapter.call(tool, args);
    ensure(!this.isError(result), `an error: ${shown(result).slice(0, 300)}`);
    await contains(result, ...parts);
  }

  async failure(tool, args, part) {
    let text;
    try {
      const result = await this.adapter.call(tool, args);
      text = shown(result);
      const lenient = ["show_roots", "reserve"].includes(tool);
      ensure(this.isError(result) || lenient, `not told as an error: ${text.slice(0, 300)}`);
    } catch (problem) {
      text = told(problem);
      ensure(!text.includes("not told as an error"), text);
    }
    ensure(text.includes(part), `${part} not in ${text.slice(0, 300)}`);
  }

  async run() {
    const { adapter } = this;
    await this.check("tools are listed", async () => {
      const names = await adapter.tools();
      const missing = table.tools.filter((name) => !names.includes(name));
      ensure(missing.length === 0, `tools are missing: ${missing}`);
    });
    for (const { check, tool, arguments: args, parts } of table.calls)
      await this.check(`call: ${check}`, () => this.call(tool, args, parts));
    await this.check("call: a large result", () => this.call("large", { size: LARGE }, ["x".repeat(LARGE)]));
    for (const { check, tool, arguments: args, part } of table.failures)
      await this.check(`failure: ${check}`, () => this.failure(tool, args, part));
    for (const { check, tool, arguments: args, feature, parts } of table.questions) {
      if (adapter[feature]) await this.check(`question: ${check}`, () => this.call(tool, args, parts));
      else await this.check(`question: ${check} is refused`, () => this.failure(tool, args, ""));
    }
    await this.check("calls at once", () => this.atOnce());
    for (const [method, name, work] of OPTIONAL) if (adapter[method]) await this.check(name, () => work(adapter));
    await this.check("the revision", async () => {
      const text = shown(await adapter.call("status", {}));
      this.revision = REVISIONS.find((revision) => text.includes(revision)) ?? null;
      ensure(this.revision, `no revision in ${text.slice(0, 300)}`);
    });
    await this.check("a tool added at run time", async () => {
      await adapter.call("grow", { name: "b" });
      if (adapter.refreshedTools) ensure((await adapter.refreshedTools()).includes("grown_b"), "not listed");
    });
  }

  async atOnce() {
    const names = Array.from({ length: 10 }, (_, number) => `no. ${number}`);
    const results = await Promise.all(names.map((name) => this.adapter.call("greet", { name })));
    names.forEach((name, number) => ensure(shown(results[number]).includes(`${name}!`), `answer ${number} is another's`));
  }
}

async function cancelled(adapter) {
  await adapter.cancel("wait", { name: "the cancelled call" });
  await until(async () => shown(await adapter.call("status", {})).split("cancelled\\\":")[1]?.includes("the cancelled call"));
}

async function progress(adapter) {
  const seen = await adapter.progress("count", { steps: 3 });
  ensure(seen.every((step, index) => step === index + 1), `progress ${seen}`);
}

const OPTIONAL = [
  ["ping", "ping", (adapter) => adapter.ping()],
  ["resources", "resources are listed", (adapter) => contains(adapter.resources(), "note://welcome", "note://bytes", "note://settings")],
  ["templates", "resource templates are listed", (adapter) => contains(adapter.templates(), "note://{topic}/{page}", "file:///{path*}")],
  ["read", "a text resource", (adapter) => contains(adapter.read("note://welcome"), "# Welcome")],
  ["read", "a resource of bytes", (adapter) => contains(adapter.read("note://bytes"), "AAEC")],
  ["read", "a resource of a template", (adapter) => contains(adapter.read("note://soup/4"), "soup, page 4")],
  ["read", "a missing resource is an error", (adapter) => fails(adapter.read("note://gone"))],
  ["prompts", "prompts are listed", (adapter) => contains(adapter.prompts(), "review", "chat", "language")],
  ["prompt", "a prompt", (adapter) => contains(adapter.prompt("review", { code: "x = 1" }), "Review this python: x = 1")],
  ["prompt", "a prompt with a resource", (adapter) => contains(adapter.prompt("chat", {}), "# Welcome", "Noted.")],
  ["prompt", "a missing prompt is an error", (adapter) => fails(adapter.prompt("gone", {}))],
  ["complete", "completion", (adapter) => contains(adapter.complete("review", "language", "p"), "pascal", "perl", "python")],
  ["progress", "progress arrives", progress],
  ["logged", "log messages arrive", (adapter) => contains(adapter.logged("talk"), "a log message")],
  ["cancel", "a cancelled call stops", cancelled],
  ["listChanged", "a changed list is told", (adapter) => adapter.listChanged()],
  ["updated", "a changed resource is told", (adapter) => adapter.updated("note://welcome")],
];

export async function run(connect) {
  const [transport, mode, file, ...target] = process.argv.slice(2);
  let seen = { revision: null, checks: {} };
  try {
    const adapter = await connect(transport, mode, target);
    const tour = new Tour(adapter);
    await tour.run();
    seen = { revision: tour.revision, checks: { connect: "", ...tour.checks, close: "" } };
    await adapter.close().catch((problem) => (seen.checks.close = told(problem)));
  } catch (problem) {
    console.error(problem);
    seen.checks.connect = told(problem).slice(0, 1500);
  }
  writeFileSync(file, JSON.stringify(seen));
  process.exit(0);
}
