import { defineConfig } from "vite";

// What is built goes into the Python package, from where the server and the wheel take it; git has none of it.
export default defineConfig({
  base: "./", // the server says by <base> where the page lives
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../lineage_store/server/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8080" } },
});
