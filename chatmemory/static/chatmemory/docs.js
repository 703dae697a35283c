"use strict";

// A plugin for Swagger UI: curl and Python beside each call, made from its path and the example of its body.

function sampleOf(spec, [path, method]) {
  const operation = spec.paths[path][method];
  const body = operation.requestBody?.content?.["application/json"]?.examples;
  const sent = body && Object.values(body)[0].value;
  const required = (operation.parameters ?? []).filter((one) => one.in === "query" && one.required);
  const query = required.map((one) => `${one.name}=${one.name.toUpperCase()}`).join("&");
  const url = location.origin + path.replace(/\{(\w+)\}/g, (_, name) => name.toUpperCase()) + (query && `?${query}`);
  const isOpen = !operation.security?.some((one) => "bearer" in one);
  const curl = [
    `curl -X ${method.toUpperCase()} '${url}'`,
    ...(isOpen ? [] : [`-H "Authorization: Bearer $TOKEN"`]),
    ...(sent ? ["-H 'Content-Type: application/json'", `-d '${JSON.stringify(sent).replaceAll("'", "'\\''")}'`] : []),
  ].join(" \\\n  ");
  const python = [
    ...(isOpen ? [] : ["import os"]),
    "import httpx",
    "",
    "answer = httpx.request(",
    `    "${method.toUpperCase()}", "${url}",`,
    ...(isOpen ? [] : [`    headers={"Authorization": f"Bearer {os.environ['TOKEN']}"},`]),
    ...(sent ? [`    json=${inPython(sent)},`] : []),
    "    timeout=60,",
    ")",
    "print(answer.text)",
  ].join("\n");
  return { curl, Python: python };
}

function inPython(value) {
  if (Array.isArray(value)) return `[${value.map(inPython).join(", ")}]`;
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${inPython(one)}`).join(", ")}}`;
}

const codeSamples = (system) => ({
  wrapComponents: {
    parameters: (Original) => (props) => {
      const h = system.React.createElement;
      const samples = Object.entries(sampleOf(system.specSelectors.specJson().toJS(), props.pathMethod));
      const shown = samples.map(([name, text]) =>
        h("details", { key: name }, h("summary", null, name), h("pre", { tabIndex: 0 }, text)),
      );
      return h("div", null, h("div", { className: "code-samples" }, shown), h(Original, props));
    },
  },
});
