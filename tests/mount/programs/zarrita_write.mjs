// Makes a store of Zarr v3 with zarrita.js, for scripts/store-test: node zarrita_write.mjs STORE. Modules are found from where this
// file is, so it is copied to where npm has installed zarrita.
import * as zarr from "zarrita";
import FileSystemStore from "@zarrita/storage/fs";

const [, , store] = process.argv;

const root = zarr.root(new FileSystemStore(store));
await zarr.create(root, { attributes: { title: "zarrita.js", list: [1, 2.5, null] } });
const types = { int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array, uint8: Uint8Array, uint16: Uint16Array,
  uint32: Uint32Array, uint64: BigUint64Array, float32: Float32Array, float64: Float64Array };
const little = { name: "bytes", configuration: { endian: "little" } };
const chains = { none: [little], transpose: [{ name: "transpose", configuration: { order: [1, 0] } }, little] };
for (const [name, codecs] of Object.entries(chains)) {
  for (const [data_type, Numbers] of Object.entries(types)) {
    try {
      const facts = { shape: [7, 5], chunkShape: [3, 5], dtype: data_type, codecs, fillValue: 0, attributes: { units: "K" } };
      const array = await zarr.create(root.resolve(`${name}_${data_type}`), facts);
      const data = Numbers.from({ length: 35 }, (_, i) => (data_type.endsWith("64") && data_type[0] !== "f" ? BigInt(i) : i));
      await zarr.set(array, null, { data, shape: [7, 5], stride: [5, 1] });
    } catch (error) {
      console.error(`store-test: zarrita.js: ${name} ${data_type} is left out: ${error.message}`);
    }
  }
}
