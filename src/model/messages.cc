#include "model/messages.h"

#include <string>
#include <utility>
#include <vector>

#include "model/json.h"

namespace codecfs {

void rpc::Form<JsonValue>::put(Encoder& out, const JsonValue& value) {
  std::string bytes;
  Json::to_cbor(*value, bytes);
  out.put(bytes);
}

void rpc::Form<JsonValue>::get(Decoder& in, JsonValue& value) {
  const auto bytes = in.get<std::string_view>();
  if (in.failed()) return;
  Json parsed = Json::from_cbor(bytes, true, /*allow_exceptions=*/false);
  if (parsed.is_discarded())
    in.refuse();
  else
    value = std::move(parsed);
}

void rpc::Form<ChunkGrid>::put(Encoder& out, const ChunkGrid& grid) {
  out.put(grid.shape());
  out.put(grid.chunks());
}

void rpc::Form<ChunkGrid>::get(Decoder& in, ChunkGrid& grid) {
  auto shape = in.get<std::vector<uint64_t>>();
  auto chunks = in.get<std::vector<uint64_t>>();
  if (in.failed()) return;
  if (auto made = ChunkGrid::make(std::move(shape), std::move(chunks)))
    grid = *std::move(made);
  else
    in.refuse();
}

}  // namespace codecfs
