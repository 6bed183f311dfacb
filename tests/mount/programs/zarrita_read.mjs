// What zarrita.js reads from a web server: zarrita_read.mjs URL v2|v3. Prints JSON: {name: flat list}.
import * as zarr from "zarrita";

const [url, version] = process.argv.slice(2);
const open = zarr.open[version];
const group = await open(new zarr.FetchStore(url), { kind: "group" });
const found = {};
for (const name of ["t", "count"]) {
  const array = await open(group.resolve(name), { kind: "array" });
  found[name] = Array.from((await zarr.get(array)).data);
}
console.log("RESULT " + JSON.stringify(found));
