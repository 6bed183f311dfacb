#include "commands/dataset_info.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "commands/walk.h"
#include "commands/workers.h"
#include "filters/core/codec_json.h"
#include "filters/core/filter.h"
#include "filters/core/filter_sources.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr size_t kBatch = 4096;     // chunks
constexpr size_t kVariables = 256;  // in one call
// With so many, another process saves more time than its start takes.
constexpr size_t kManyVariables = 2'000;

void find_missing(const Variable& facts, VariableInfo& info) {
  for (const FilterStage& stage : facts.filters) {
    if (filters::find_for(stage)) continue;
    const std::string where = filters::where_to_get(stage.id);
    info.missing.push_back(
        {EIO, fmt::format("the filter {} is not installed{}{}", filter_name(stage), where.empty() ? "" : "; ", where)});
  }
}

uint64_t decoded_bytes_of(const Variable& facts) {
  uint64_t bytes = facts.type.size;
  bool is_huge = false;
  for (const uint64_t extent : facts.grid.shape()) {
    if (extent == 0) return 0;
    if (__builtin_mul_overflow(bytes, extent, &bytes)) is_huge = true;
  }
  return is_huge ? UINT64_MAX : bytes;
}

/// Looks up the chunks of a variable that has many.
Result<> count_chunks(Source& source, ObjectId object, VariableInfo& info, const std::atomic<bool>& cancelled) {
  for (uint64_t from = 0;;) {
    const Result<std::vector<uint64_t>> numbers = source.stored_chunks(object, from, kBatch);
    if (!numbers) {
      info.error = numbers.error();
      return {};
    }
    if (numbers->empty()) return {};
    for (const uint64_t number : *numbers) {
      const Result<ChunkInfo> chunk = source.locate(object, number);
      if (!chunk) {
        if (!info.error) info.error = chunk.error();
        continue;
      }
      info.stored_bytes += chunk->stored_size;
      if (chunk->filter_mask != 0) ++info.masked_chunks;
    }
    info.stored_chunks += numbers->size();
    from = numbers->back() + 1;
    if (cancelled) return fail(ECANCELED, "interrupted");
  }
}

Result<VariableInfo> make_info(Source& source, ObjectId object, VariableSummary summary,
                               const std::atomic<bool>& cancelled) {
  VariableInfo info;
  info.facts = std::move(summary.facts);
  info.error = std::move(summary.error);
  info.stored_chunks = summary.stored_chunks;
  info.stored_bytes = summary.stored_bytes;
  info.masked_chunks = summary.masked_chunks;
  if (!info.facts) return info;
  info.decoded_bytes = decoded_bytes_of(*info.facts);
  find_missing(*info.facts, info);
  if (!summary.is_counted && !info.error) CODECFS_TRY(count_chunks(source, object, info, cancelled));
  return info;
}

/// Without line breaks and indents.
std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool is_space = c == ' ' || c == '\n' || c == '\t';
    if (!is_space)
      line += c;
    else if (!line.empty() && !line.ends_with(' '))
      line += ' ';
  }
  return line;
}

}  // namespace

std::string filter_name(const FilterStage& stage) {
  if (const filters::FilterPtr filter = filters::find_for(stage)) return filter->name;
  for (const char* key : {"id", "name"})
    if (const Json& codec = stage.codec; codec.is_object() && codec.contains(key) && codec[key].is_string())
      return codec[key].get<std::string>();
  return stage.name.empty() ? std::to_string(stage.id) : stage.name;
}

std::string filters_text(const std::vector<FilterStage>& filters) {
  std::string text;
  for (const FilterStage& stage : filters) {
    text += (text.empty() ? "" : "|") + filter_name(stage);
    for (const uint32_t parameter : stage.parameters) text += fmt::format(",{}", parameter);
  }
  return text.empty() ? "none" : text;
}

std::string type_text(const DataType& type) {
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
    case TypeKind::structured: {
      std::string text;
      for (const TypeMember& member : type.members) {
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", member.name, type_text(member.type));
        std::string shape;
        for (const uint64_t extent : member.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
        if (!shape.empty()) text += "[" + shape + "]";
      }
      return "{" + text + "}";
    }
    case TypeKind::object: return "variable length";
  }
  return "";
}

std::string type_text(const Variable& variable) {
  if (!variable.zarr3_type.empty()) return variable.zarr3_type;
  // libhdf5 has no name for integers with padding.
  if (!variable.type_text.empty() && !variable.type_text.starts_with("undefined")) return one_line(variable.type_text);
  if (variable.type.kind == TypeKind::object)
    if (const Json& codec = variable.object_codec; codec.is_object() && codec.value("id", "") == "vlen-utf8")
      return "string";
  return type_text(variable.type);
}

Result<VariableInfo> read_variable(Source& source, ObjectId variable) {
  static const std::atomic<bool> never = false;
  std::vector<VariableSummary> summaries = source.summaries({&variable, 1});
  return make_info(source, variable, std::move(summaries.front()), never);
}

Result<DatasetInfo> read_info(Source& source, const std::string& name, const std::string& path,
                              const OpenAgain& open_again) {
  DatasetInfo info;
  info.source = name;
  info.format = source.format();
  if (S_ISREG(source.status().st_mode)) info.source_bytes = static_cast<uint64_t>(source.status().st_size);
  CODECFS_ASSIGN(const Entry start, find_named(source, path));
  std::vector<size_t> variables;  // indices of nodes
  CODECFS_TRY(walk(
      source, normal_path(path), start,
      [&](const std::string& at, const Entry& entry) -> Result<> {
        if (entry.kind == EntryKind::variable) variables.push_back(info.nodes.size());
        info.nodes.push_back({at, entry, {}, {}});
        return interrupted ? Result<>(fail(ECANCELED, "interrupted")) : Result<>();
      },
      [&](const std::string& at, const Error& error) -> Result<> {
        if (info.nodes.back().path != at)  // the group would have been visited last
          info.nodes.push_back({at, {.name = at.substr(at.rfind('/') + 1), .target = {}}, {}, {}});
        info.nodes.back().error = error;
        return {};
      },
      [](Source& of, ObjectId group) { return of.overview(group); }));
  std::vector<Named> named;
  for (const size_t index : variables) named.push_back({info.nodes[index].path, info.nodes[index].entry.object});
  const bool is_hdf5_file = info.source_bytes > 0 && !info.format.starts_with("Zarr");
  const bool opens = is_hdf5_file && path.empty() && named.size() >= kManyVariables;
  Readers readers(source, named, opens ? open_again : OpenAgain{});
  // A source that waits for a network gets as many at a time as it wants.
  const size_t at_once = source.reads_at_once();
  const size_t most = at_once == 0 ? kVariables : 1;
  const auto describe = [&](uint64_t number) -> Result<> {
    const auto first = static_cast<size_t>(number * most);
    const Readers::Lease reader = readers.take();
    const std::span batch = reader.objects().subspan(first, std::min(most, named.size() - first));
    std::vector<VariableSummary> summaries = reader.source().summaries(batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      CODECFS_ASSIGN(info.nodes[variables[first + i]].variable,
                     make_info(reader.source(), batch[i], std::move(summaries[i]), interrupted));
    }
    return {};
  };
  CODECFS_TRY(in_parallel((named.size() + most - 1) / most, describe, at_once));
  return info;
}

}  // namespace codecfs::commands
