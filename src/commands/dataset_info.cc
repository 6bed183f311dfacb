#include "commands/dataset_info.h"

#include <algorithm>
#include <utility>

#include "commands/walk.h"
#include "commands/workers.h"
#include "filters/core/codec_json.h"
#include "filters/core/filter.h"
#include "filters/core/filter_sources.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr size_t kBatch = 4096;  // chunks

std::string name_of(const FilterStage& stage) {
  if (const filters::FilterPtr filter = filters::find_for(stage)) return filter->name;
  for (const char* key : {"id", "name"})
    if (const Json& codec = stage.codec; codec.is_object() && codec.contains(key) && codec[key].is_string())
      return codec[key].get<std::string>();
  return stage.name.empty() ? std::to_string(stage.id) : stage.name;
}

void find_missing(const Variable& facts, VariableInfo& info) {
  for (const FilterStage& stage : facts.filters) {
    if (filters::find_for(stage)) continue;
    const std::string where = filters::where_to_get(stage.id);
    info.missing.push_back(
        {EIO, fmt::format("the filter {} is not installed{}{}", name_of(stage), where.empty() ? "" : "; ", where)});
  }
}

Result<VariableInfo> read_variable(Source& source, ObjectId object) {
  VariableInfo info;
  const Result<VariablePtr> facts = source.facts(object);
  if (!facts) {
    info.error = facts.error();
    return info;
  }
  info.facts = *facts;
  const ChunkGrid& grid = info.facts->grid;
  uint64_t elements = 1;
  for (const uint64_t extent : grid.shape()) elements *= extent;
  info.decoded_bytes = elements * info.facts->type.size;
  find_missing(*info.facts, info);
  for (uint64_t from = 0;;) {
    const Result<std::vector<uint64_t>> numbers = source.stored_chunks(object, from, kBatch);
    if (!numbers) {
      info.error = numbers.error();
      return info;
    }
    if (numbers->empty()) return info;
    for (const uint64_t number : *numbers) {
      const Result<ChunkInfo> chunk = source.locate(object, number);
      if (!chunk) {
        info.error = chunk.error();
        return info;
      }
      info.stored_bytes += chunk->stored_size;
    }
    info.stored_chunks += numbers->size();
    from = numbers->back() + 1;
    if (interrupted) return fail(ECANCELED, "interrupted");
  }
}

}  // namespace

std::string filters_text(const std::vector<FilterStage>& filters) {
  std::string text;
  for (const FilterStage& stage : filters) {
    text += (text.empty() ? "" : "|") + name_of(stage);
    for (const uint32_t parameter : stage.parameters) text += fmt::format(",{}", parameter);
  }
  return text.empty() ? "none" : text;
}

std::string type_text(const Variable& variable) {
  if (!variable.type_text.empty()) return variable.type_text;
  if (!variable.zarr3_type.empty()) return variable.zarr3_type;
  const DataType& type = variable.type;
  const auto bits = [&](const char* name) { return fmt::format("{}{}", name, type.size * 8); };
  switch (type.kind) {
    case TypeKind::boolean: return "bool";
    case TypeKind::signed_int: return bits("int");
    case TypeKind::unsigned_int: return bits("uint");
    case TypeKind::floating: return bits("float");
    case TypeKind::complex: return bits("complex");
    case TypeKind::timedelta: return fmt::format("timedelta64[{}]", type.unit);
    case TypeKind::datetime: return fmt::format("datetime64[{}]", type.unit);
    case TypeKind::string: return fmt::format("bytes[{}]", type.size);
    case TypeKind::unicode: return fmt::format("str[{}]", type.size / 4);
    case TypeKind::raw: return fmt::format("raw[{}]", type.size);
    case TypeKind::structured: return print_json(print_dtype(type));
    case TypeKind::object: return "variable length";
  }
  return "";
}

Result<DatasetInfo> read_info(Source& source, const std::string& name) {
  DatasetInfo info;
  info.source = name;
  info.format = source.format();
  if (S_ISREG(source.status().st_mode)) info.source_bytes = static_cast<uint64_t>(source.status().st_size);
  CODECFS_TRY(walk(
      source,
      [&](const std::string& path, const Entry& entry) -> Result<> {
        info.nodes.push_back({path, entry, {}, {}});
        return interrupted ? Result<>(fail(ECANCELED, "interrupted")) : Result<>();
      },
      [&](const std::string& path, const Error& error) -> Result<> {
        std::ranges::find(info.nodes, path, &InfoNode::path)->error = error;
        return {};
      }));
  CODECFS_TRY(in_parallel(info.nodes.size(), [&](uint64_t number) -> Result<> {
    InfoNode& node = info.nodes[number];
    if (node.entry.kind != EntryKind::variable) return {};
    CODECFS_ASSIGN(node.variable, read_variable(source, node.entry.object));
    return {};
  }));
  return info;
}

}  // namespace codecfs::commands
