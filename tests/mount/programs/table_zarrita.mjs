// zarrita.js in the table of docs/python.md (table_tools.py): table_zarrita.mjs read PATH NAME... | change PATH | create PATH. Modules are
// found from where this file is, so it is copied to where npm has installed zarrita.
import * as zarr from "zarrita";
import FileSystemStore from "@zarrita/storage/fs";

const [action, path, ...names] = process.argv.slice(2);
const root = zarr.root(new FileSystemStore(path));
const plain = (data) => Array.from(data, (value) => Number(value));
process.on("uncaughtException", (error) => {
  console.error([error, ...(error.errors ?? [])].map((one) => one.message).join("; "));
  process.exit(1);
});
if (action === "read") {
  const group = await zarr.open(root, { kind: "group" });
  const found = {};
  for (const name of names) {
    found[name] = plain((await zarr.get(await zarr.open(group.resolve(name), { kind: "array" }))).data);
  }
  console.log(JSON.stringify(found));
} else if (action === "change") {
  const array = await zarr.open(root.resolve("t"), { kind: "array" });
  await zarr.set(array, [0, zarr.slice(1, 3), zarr.slice(2, 6)], 99.5);
} else {
  const codecs = names[0] ? { codecs: [{ name: "bytes", configuration: { endian: "little" } }], fillValue: 0 } : {};
  await zarr.create(root);
  const v = await zarr.create(root.resolve("v"), { shape: [6, 10], chunkShape: [3, 5], dtype: "float32", ...codecs });
  await zarr.set(v, null, { data: Float32Array.from({ length: 60 }, (_, i) => i / 4), shape: [6, 10], stride: [10, 1] });
  await zarr.create(root.resolve("sub"));
  const w = await zarr.create(root.resolve("sub/w"), { shape: [12], chunkShape: [6], dtype: "int32", ...codecs });
  await zarr.set(w, null, { data: Int32Array.from({ length: 12 }, (_, i) => i), shape: [12], stride: [1] });
}
