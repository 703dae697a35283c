// What a code block may be called, and which file knows that language. Nothing else is ever loaded.

const FILES = {
  asm: "asm nasm", bash: "bash sh shell zsh console", c: "c h cpp c++ cc hpp", css: "css scss less", diff: "diff patch",
  docker: "docker dockerfile containerfile", go: "go golang", html: "html htm vue", ini: "ini cfg conf properties",
  java: "java", js: "js javascript jsx mjs cjs node", jsdoc: "jsdoc", json: "json jsonc json5 jsonl", md: "md markdown",
  py: "py python python3 py3", regex: "regex regexp", rs: "rs rust", sql: "sql postgresql postgres psql mysql sqlite",
  todo: "todo", toml: "toml", ts: "ts typescript tsx", xml: "xml svg xsl", yaml: "yaml yml",
};
const NAMES = new Map(Object.entries(FILES).flatMap(([file, names]) => names.split(" ").map((name) => [name, file])));

/** The file for a language that goes by this name, without its ending; undefined where there is none. */
export const fileOf = (name) => NAMES.get(name.toLowerCase());
