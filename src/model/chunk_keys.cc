#include "model/chunk_keys.h"

#include "model/json.h"

namespace codecfs {

std::string ChunkKeys::name_of(const ChunkGrid& grid, uint64_t number) const {
  if (!has_prefix) return grid.name_of(number, separator);
  if (grid.rank() == 0) return "c";
  std::string name{'c', separator};
  name += grid.name_of(number, separator);
  return name;
}

std::optional<uint64_t> ChunkKeys::number_of(const ChunkGrid& grid, std::string_view name) const {
  if (!has_prefix) return grid.number_of(name, separator);
  if (grid.rank() == 0) return name == "c" ? std::optional<uint64_t>(0) : std::nullopt;
  if (name.size() < 2 || name[0] != 'c' || name[1] != separator) return std::nullopt;
  return grid.number_of(name.substr(2), separator);
}

Result<ChunkKeys> parse_chunk_keys(const Json& encoding) {
  const auto refuse = [&] { return fail(EINVAL, "\"chunk_key_encoding\": {} is not known", print_json(encoding)); };
  Json name = encoding;
  Json separator;
  if (encoding.is_object()) {
    name = encoding.value("name", Json());
    if (const auto configuration = encoding.find("configuration"); configuration != encoding.end()) {
      if (!configuration->is_object()) return refuse();
      for (const auto& [key, value] : configuration->items()) {
        if (key != "separator") return refuse();
        separator = value;
      }
    }
  }
  ChunkKeys keys;
  if (name == "v2") {
    keys = {.has_prefix = false, .separator = '.'};
  } else if (name != "default") {
    return refuse();
  }
  if (separator == "/" || separator == ".") {
    keys.separator = separator == "/" ? '/' : '.';
  } else if (!separator.is_null()) {
    return refuse();
  }
  return keys;
}

Json print_chunk_keys(const ChunkKeys& keys) {
  return {{"name", keys.has_prefix ? "default" : "v2"},
          {"configuration", {{"separator", std::string(1, keys.separator)}}}};
}

}  // namespace codecfs
