// zarrita reads `a` and `empty` of each group whose address it is given; prints their types, shapes and values as JSON lines.
import { createHash } from "node:crypto";
import { pathToFileURL } from "node:url";

const [library, ...urls] = process.argv.slice(2);
const zarr = await import(pathToFileURL(library));

for (const url of urls) {
  const line = { url };
  try {
    for (const suffix of [false, true]) {
      const store = new zarr.FetchStore(url, { useSuffixRequest: suffix });
      const root = await zarr.open(store, { kind: "group" });
      for (const name of ["a", "empty"]) {
        const array = await zarr.open(root.resolve(name), { kind: "array" });
        const { data, shape } = await zarr.get(array);
        const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
        const found = [array.dtype, shape, createHash("sha256").update(bytes).digest("hex")];
        if (line[name] && JSON.stringify(line[name]) !== JSON.stringify(found)) throw new Error("suffix ranges give other values");
        line[name] = found;
      }
      // A part of it: fewer chunks, ranges into shards.
      const array = await zarr.open(root.resolve("a"), { kind: "array" });
      line.part = Array.from((await zarr.get(array, [zarr.slice(30, 34), 40])).data);
    }
  } catch (e) {
    line.error = String(e);
  }
  console.log(JSON.stringify(line));
}
