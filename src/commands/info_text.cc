// The forms in which `codecfs info` prints.

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/human.h"
#include "commands/dataset_info.h"
#include "filters/core/codec_json.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr size_t kColumns = 7;  // name, type, shape, chunks, size, ratio, filters
using Cells = std::array<std::string, kColumns>;

struct Row {
  std::string branches;  // "│  ├─ "
  Cells cells;
  bool is_variable = false;
  std::vector<std::string> notes;  // errors, each on a line of its own
};

std::string list_text(const std::vector<uint64_t>& numbers) {
  std::string text;
  for (const uint64_t number : numbers) text += (text.empty() ? "" : " × ") + std::to_string(number);
  return text.empty() ? "scalar" : text;
}

size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Names and reasons come from files: control characters must not reach the terminal.
std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  return text;
}

/// The text in at most so many columns; a longer one ends with an ellipsis.
std::string cut(std::string_view text, size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  std::string kept;
  for (size_t at = 0, used = 0; at < text.size() && used + 1 < columns; ++used) do
      kept += text[at++];
    while (at < text.size() && (text[at] & 0xC0) == 0x80);
  return kept + "…";
}

std::string ratio_text(uint64_t decoded, uint64_t stored) {
  if (decoded == 0 || stored == 0) return "";
  return fmt::format("{:.1f}x", static_cast<double>(decoded) / static_cast<double>(stored));
}

/// Decoded bytes of the chunks that are stored; edge chunks count as far as they lie in the array.
uint64_t decoded_of_stored(const VariableInfo& info) {
  const uint64_t count = info.facts->grid.count();
  if (count == 0 || info.stored_chunks >= count) return info.decoded_bytes;
  return static_cast<uint64_t>(static_cast<double>(info.decoded_bytes) * static_cast<double>(info.stored_chunks) /
                               static_cast<double>(count));
}

std::string storage_text(const Variable& facts) {
  switch (facts.storage) {
    case Storage::contiguous: return "contiguous";
    case Storage::compact: return "compact";
    case Storage::external: return "external files";
    case Storage::virtual_sources: return "virtual";
    case Storage::chunked: break;
  }
  std::string text = list_text(facts.grid.chunks());
  if (facts.shards) text += fmt::format(" in shards of {}", list_text(facts.shards->grid.chunks()));
  return text;
}

Row row_of(const InfoNode& node, std::string branches) {
  Row row{.branches = std::move(branches), .cells = {}, .notes = {}};
  row.cells[0] = node.entry.name;
  if (node.error) row.notes.push_back(node.error->reason);
  if (node.entry.kind == EntryKind::group || node.entry.kind == EntryKind::folder) row.cells[0] += "/";
  if (node.entry.kind == EntryKind::symlink) row.cells[0] += " → " + node.entry.target;
  if (!node.variable) return row;
  row.is_variable = true;
  const VariableInfo& info = *node.variable;
  if (info.error) row.notes.push_back(info.error->reason);
  for (const Error& missing : info.missing) row.notes.push_back(missing.reason);
  if (!info.facts) return row;
  if (info.facts->unreadable) row.notes.push_back(info.facts->unreadable->reason);
  row.cells[1] = type_text(*info.facts);
  row.cells[2] = list_text(info.facts->grid.shape());
  row.cells[3] = info.facts->grid.rank() == 0 ? "" : storage_text(*info.facts);
  row.cells[4] = human_bytes(info.stored_bytes);
  row.cells[5] = ratio_text(decoded_of_stored(info), info.stored_bytes);
  row.cells[6] = info.facts->filters.empty() ? "" : filters_text(info.facts->filters);
  return row;
}

/// The rows of all nodes but the root.
std::vector<Row> rows_of(const DatasetInfo& info) {
  std::vector<Row> rows;
  const auto depth_of = [](const InfoNode& node) {
    return node.path.empty() ? 0 : 1 + std::ranges::count(node.path, '/');
  };
  // Whether a node has a later sibling: the next node that is not below it has the same depth.
  std::vector<bool> has_sibling(info.nodes.size());
  std::vector<bool> seen;  // by depth: a node of that depth follows
  for (size_t i = info.nodes.size(); i-- > 0;) {
    const auto depth = static_cast<size_t>(depth_of(info.nodes[i]));
    seen.resize(std::max(seen.size(), depth + 1));
    has_sibling[i] = seen[depth];
    seen.resize(depth + 1);
    seen[depth] = true;
  }
  std::vector<bool> open;  // by depth: whether the last node there has a later sibling
  for (size_t i = 0; i < info.nodes.size(); ++i) {
    const auto depth = static_cast<size_t>(depth_of(info.nodes[i]));
    open.resize(depth);
    open.push_back(has_sibling[i]);
    if (depth == 0 && info.nodes[i].entry.kind != EntryKind::variable) {
      if (info.nodes[i].error) rows.push_back(row_of(info.nodes[i], ""));
      continue;
    }
    std::string branches;
    for (size_t d = 1; d < depth; ++d) branches += open[d] ? "│  " : "   ";
    if (depth > 0) branches += has_sibling[i] ? "├─ " : "└─ ";
    rows.push_back(row_of(info.nodes[i], std::move(branches)));
    if (depth == 0) rows.back().cells[0] = "(the root is an array)";
  }
  return rows;
}

struct Totals {
  uint64_t groups = 0;
  uint64_t variables = 0;
  uint64_t stored = 0;
  uint64_t decoded = 0;
  uint64_t decoded_of_stored = 0;
};

Totals totals_of(const DatasetInfo& info) {
  Totals totals;
  for (const InfoNode& node : info.nodes) {
    if (node.entry.kind == EntryKind::group && !node.path.empty()) ++totals.groups;
    if (!node.variable) continue;
    ++totals.variables;
    totals.stored += node.variable->stored_bytes;
    totals.decoded += node.variable->decoded_bytes;
    if (node.variable->facts) totals.decoded_of_stored += decoded_of_stored(*node.variable);
  }
  return totals;
}

std::string counted(uint64_t number, std::string_view what) {
  return fmt::format("{} {}{}", human_count(number), what, number == 1 ? "" : "s");
}

}  // namespace

std::string info_text(const DatasetInfo& info, size_t width, bool colours) {
  const auto painted = [&](const char* code, const std::string& text) {
    return colours && !text.empty() ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  };
  const Totals totals = totals_of(info);
  std::string text = fmt::format("{}  {}, {}, {}", painted("1", printable(info.source)), info.format,
                                 counted(totals.groups, "group"), counted(totals.variables, "variable"));
  if (info.source_bytes != 0) text += fmt::format(", {}", human_bytes(info.source_bytes));
  text += "\n";
  if (totals.variables != 0)
    text += fmt::format("{} stored, {} decoded{}\n", human_bytes(totals.stored), human_bytes(totals.decoded),
                        totals.stored == 0 ? "" : ", ratio " + ratio_text(totals.decoded_of_stored, totals.stored));
  std::vector<Row> rows = rows_of(info);
  if (totals.variables != 0)
    rows.insert(
        rows.begin(),
        Row{.branches = "", .cells = {"", "type", "shape", "chunks", "stored", "ratio", "filters"}, .notes = {}});
  constexpr std::array<size_t, kColumns> kMost{48, 24, 32, 32, 10, 8, SIZE_MAX};
  std::array<size_t, kColumns> widths{};
  for (const Row& row : rows)
    for (size_t c = 0; c < kColumns; ++c) {
      if (c == 0 && !row.is_variable) continue;  // names of groups may run into the columns, which are empty there
      widths[c] =
          std::max(widths[c], std::min(kMost[c], columns_of(row.cells[c]) + (c == 0 ? columns_of(row.branches) : 0)));
    }
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    std::string line = row.branches;
    size_t used = columns_of(row.branches);
    std::string plain;
    for (size_t c = 0; c < kColumns; ++c) {
      const bool right = c == 4 || c == 5;
      std::string cell = printable(row.cells[c]);
      if (c == 0) {
        plain = line + (row.is_variable ? cut(cell, std::max<size_t>(widths[0], used + 8) - used) : cell);
        used = columns_of(plain);
        if (row.is_variable || i == 0) plain.append(widths[0] > used ? widths[0] - used : 0, ' ');
        continue;
      }
      if (!row.is_variable && i != 0) break;
      cell = cut(cell, widths[c]);
      const size_t pad = c + 1 == kColumns ? 0 : widths[c] - columns_of(cell);
      plain += "  " + (right ? std::string(pad, ' ') + cell : cell + std::string(pad, ' '));
    }
    while (plain.ends_with(' ')) plain.pop_back();
    if (width != 0) plain = cut(plain, width);
    const bool is_group = !row.is_variable && i != 0;
    text += (i == 0 && totals.variables != 0 ? painted("2", plain) : is_group ? painted("34", plain) : plain) + "\n";
    for (const std::string& note : row.notes)
      text += painted("31", std::string(columns_of(row.branches), ' ') + "  ! " + printable(note)) + "\n";
  }
  return text;
}

std::string variable_text(const InfoNode& node, const Variable& described) {
  const VariableInfo& info = *node.variable;
  std::string text = "/" + printable(node.path) + "\n";
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<12} {}\n", name, printable(value));
  };
  add("type", type_text(described));
  add("shape", list_text(described.grid.shape()));
  if (described.dimensions) {
    std::string names;
    for (const std::string& name : *described.dimensions) names += (names.empty() ? "" : ", ") + name;
    add("dimensions", names);
  }
  if (!described.max_shape.empty()) {
    std::string most;
    for (const auto& extent : described.max_shape)
      most += (most.empty() ? "" : " × ") + (extent ? std::to_string(*extent) : std::string("unlimited"));
    if (most != list_text(described.grid.shape())) add("at most", most);
  }
  add("chunks", storage_text(described));
  add("filters", filters_text(described.filters));
  if (const Result<std::string> spec = filters::print_filter_spec(described.filters); spec && !spec->empty())
    add("as a spec", *spec);
  if (!described.filters.empty()) add("as codecs", print_json(filters::print_codecs(described.filters)));
  if (!described.fill_value.is_null()) add("fill value", print_json(described.fill_value));
  add("stored", fmt::format("{} in {} of {} chunks", human_bytes(info.stored_bytes), human_count(info.stored_chunks),
                            human_count(described.grid.count())));
  if (info.decoded_bytes != 0) add("decoded", human_bytes(info.decoded_bytes));
  add("ratio", ratio_text(decoded_of_stored(info), info.stored_bytes));
  for (const Error& missing : info.missing) add("missing", missing.reason);
  if (described.unreadable) add("unreadable", described.unreadable->reason);
  if (described.unreadable_attributes) add("attributes", described.unreadable_attributes->reason);
  if (!described.attributes.empty()) text += "  attributes\n";
  for (const Attribute& attribute : described.attributes)
    text += fmt::format("    {} = {}\n", printable(attribute.name), print_json(attribute.value));
  return text;
}

Json info_json(const DatasetInfo& info) {
  const Totals totals = totals_of(info);
  Json json = Json::object();
  json["source"] = info.source;
  json["format"] = info.format;
  if (info.source_bytes != 0) json["file_bytes"] = info.source_bytes;
  json["stored_bytes"] = totals.stored;
  json["decoded_bytes"] = totals.decoded;
  json["groups"] = Json::array();
  json["variables"] = Json::array();
  for (const InfoNode& node : info.nodes) {
    if (node.entry.kind == EntryKind::group || node.entry.kind == EntryKind::folder) {
      Json group = {{"path", "/" + node.path}};
      if (node.error) group["error"] = node.error->reason;
      json["groups"].push_back(std::move(group));
    }
    if (!node.variable) continue;
    Json variable = {{"path", "/" + node.path}};
    const VariableInfo& found = *node.variable;
    if (found.error) variable["error"] = found.error->reason;
    if (found.facts) {
      const Variable& facts = *found.facts;
      variable["type"] = type_text(facts);
      variable["dtype"] = print_dtype(facts.type);
      variable["shape"] = facts.grid.shape();
      variable["chunks"] = facts.grid.chunks();
      if (facts.shards) variable["shards"] = facts.shards->grid.chunks();
      if (const Result<std::string> spec = filters::print_filter_spec(facts.filters))
        variable["filter"] = spec->empty() ? "none" : *spec;
      variable["codecs"] = filters::print_codecs(facts.filters);
      variable["stored_chunks"] = found.stored_chunks;
      variable["all_chunks"] = facts.grid.count();
      variable["stored_bytes"] = found.stored_bytes;
      variable["decoded_bytes"] = found.decoded_bytes;
      if (facts.unreadable) variable["error"] = facts.unreadable->reason;
      if (!found.missing.empty()) {
        variable["missing_filters"] = Json::array();
        for (const Error& missing : found.missing) variable["missing_filters"].push_back(missing.reason);
      }
    }
    json["variables"].push_back(std::move(variable));
  }
  return json;
}

}  // namespace codecfs::commands
