// The forms in which `codecfs info` prints.

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "backends/api/link_notes.h"
#include "base/human.h"
#include "base/terminal_text.h"
#include "commands/dataset_info.h"
#include "filters/core/codec_json.h"
#include "filters/core/filter.h"
#include "model/float_attributes.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr size_t kColumns = 7;  // name, type, shape, chunks, size, ratio, filters
using Cells = std::array<std::string, kColumns>;

constexpr const char* kBold = "1";
constexpr const char* kFaint = "2";
constexpr const char* kRed = "31";
constexpr const char* kBlue = "34";
constexpr const char* kCyan = "36";

/// All texts are printable.
struct Row {
  std::string branches;  // "│  ├─ "
  Cells cells;
  bool is_variable = false;
  bool is_head = false;
  const char* colour = nullptr;
  std::vector<std::string> notes;  // errors, each on a line of its own
};

std::string list_text(const std::vector<uint64_t>& numbers) {
  std::string text;
  for (const uint64_t number : numbers) text += (text.empty() ? "" : " × ") + std::to_string(number);
  return text.empty() ? "scalar" : text;
}

/// Text without quotes; else JSON. Characters that are not ASCII stay as they are.
std::string attribute_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return print_json(value);
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
  row.cells[0] = printable(node.entry.name);
  const auto note = [&](const Error& error) { row.notes.push_back(printable(error.reason)); };
  if (node.error) note(*node.error);
  if (node.entry.kind == EntryKind::group || node.entry.kind == EntryKind::folder) {
    row.cells[0] += "/";
    row.colour = kBlue;
  }
  if (node.entry.kind == EntryKind::symlink) {
    row.cells[0] += " → " + printable(node.entry.target);
    row.colour = kCyan;
  }
  if (!node.variable) return row;
  row.is_variable = true;
  const VariableInfo& info = *node.variable;
  if (info.error) note(*info.error);
  for (const Error& missing : info.missing) note(missing);
  if (!info.facts) return row;
  if (info.facts->unreadable) note(*info.facts->unreadable);
  row.cells[1] = printable(type_text(*info.facts));
  row.cells[2] = list_text(info.facts->grid.shape());
  row.cells[3] = info.facts->grid.rank() == 0 ? "" : storage_text(*info.facts);
  row.cells[4] = human_bytes(info.stored_bytes);
  row.cells[5] = ratio_text(decoded_of_stored(info), info.stored_bytes);
  row.cells[6] = info.facts->filters.empty() ? "" : printable(filters_text(info.facts->filters));
  if (info.masked_chunks > 0) row.cells[6] += fmt::format(" (skipped in {})", counted(info.masked_chunks, "chunk"));
  return row;
}

/// "bzip2 optional, szip mandatory"; empty if the format has no flags.
std::string flags_text(std::span<const FilterStage> chain) {
  std::string text;
  for (const FilterStage& stage : chain) {
    if (!stage.has_flag) return {};
    const filters::FilterPtr filter = filters::find_for(stage);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                        filter != nullptr ? filter->name : fmt::format("filter {}", stage.id),
                        stage.optional ? "optional" : "mandatory");
  }
  return text;
}

/// The rows of all nodes but the first, unless that is a variable.
std::vector<Row> rows_of(const DatasetInfo& info) {
  std::vector<Row> rows;
  const auto level_of = [](const std::string& path) { return path.empty() ? 0 : 1 + std::ranges::count(path, '/'); };
  const auto depth_of = [&](const InfoNode& node) { return level_of(node.path) - level_of(info.nodes[0].path); };
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
    if (info.nodes[i].path.empty()) rows.back().cells[0] = "(the root is an array)";
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
    if (node.entry.kind == EntryKind::group && &node != info.nodes.data()) ++totals.groups;
    if (!node.variable) continue;
    ++totals.variables;
    totals.stored += node.variable->stored_bytes;
    totals.decoded += std::min(node.variable->decoded_bytes, UINT64_MAX - totals.decoded);
    if (node.variable->facts)
      totals.decoded_of_stored += std::min(decoded_of_stored(*node.variable), UINT64_MAX - totals.decoded_of_stored);
  }
  return totals;
}

struct Style {
  size_t width;  // columns of the terminal; 0: no limit
  bool colours;

  [[nodiscard]] std::string painted(const char* code, const std::string& text) const {
    return colours && !text.empty() ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  }
};

/// What the source is and holds, in one line or more.
std::string title_of(const DatasetInfo& info, const Totals& totals, const Style& style) {
  std::string name = printable(info.source);
  if (!info.nodes.empty() && !info.nodes[0].path.empty()) name += " /" + printable(info.nodes[0].path);
  std::string facts =
      fmt::format("{}, {}, {}", info.format, counted(totals.groups, "group"), counted(totals.variables, "variable"));
  if (info.source_bytes != 0) facts += fmt::format(", {}", human_bytes(info.source_bytes));
  const bool fits = style.width == 0 || columns_of(name) + 2 + columns_of(facts) <= style.width;
  std::string text = style.painted(kBold, fits ? name : wrap_to(name, style.width, "")) + (fits ? "  " : "\n") +
                     (fits ? facts : wrap_to(facts, style.width, "")) + "\n";
  if (totals.variables == 0) return text;
  const std::string ratio = ratio_text(totals.decoded_of_stored, totals.stored);
  return text +
         wrap_to(fmt::format("{} stored, {} decoded{}{}", human_bytes(totals.stored), human_bytes(totals.decoded),
                             ratio.empty() ? "" : ", ratio ", ratio),
                 style.width, "") +
         "\n";
}

/// The widths of the columns: what the cells take, and less where that is too much for the terminal.
std::array<size_t, kColumns> widths_for(const std::vector<Row>& rows, const Style& style) {
  constexpr std::array<size_t, kColumns> kMax{48, 32, 32, 32, 10, 8, SIZE_MAX};
  constexpr std::array<size_t, kColumns> kLeast{16, 8, 8, 8, 10, 8, 8};
  std::array<size_t, kColumns> widths{};
  for (const Row& row : rows)
    for (size_t c = 0; c < kColumns; ++c) {
      if (c == 0 && !row.is_variable) continue;  // names of groups may run into the columns, which are empty there
      const size_t taken = columns_of(row.cells[c]) + (c == 0 ? columns_of(row.branches) : 0);
      widths[c] = std::max(widths[c], std::min(kMax[c], taken));
    }
  if (style.width == 0) return widths;
  size_t total = 2 * (kColumns - 1);
  for (const size_t width : widths) total += width;
  while (total > style.width) {
    size_t widest = kColumns;
    for (size_t c = 0; c < kColumns; ++c)
      if (widths[c] > kLeast[c] && (widest == kColumns || widths[c] > widths[widest])) widest = c;
    if (widest == kColumns) break;
    --widths[widest];
    --total;
  }
  return widths;
}

/// A row without its notes, and without colours.
std::string line_of(const Row& row, const std::array<size_t, kColumns>& widths) {
  if (!row.is_variable && !row.is_head) return row.branches + row.cells[0];
  const size_t indent = columns_of(row.branches);
  std::string line = row.branches + cut_to(row.cells[0], std::max<size_t>(widths[0], indent + 8) - indent);
  const auto pad_to = [](const std::string& text, size_t width) {
    return std::string(width - std::min(width, columns_of(text)), ' ');
  };
  line += pad_to(line, widths[0]);
  for (size_t c = 1; c < kColumns; ++c) {
    const bool is_number = c == 4 || c == 5;
    const std::string cell = cut_to(row.cells[c], widths[c]);
    const std::string pad = pad_to(cell, widths[c]);
    line += "  " + (is_number ? pad + cell : cell + pad);
  }
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

}  // namespace

std::string info_text(const DatasetInfo& info, size_t width, bool colours) {
  const Style style{width, colours};
  const Totals totals = totals_of(info);
  std::string text = title_of(info, totals, style);
  std::vector<Row> rows = rows_of(info);
  if (totals.variables != 0)
    rows.insert(rows.begin(), Row{.branches = "",
                                  .cells = {"", "type", "shape", "chunks", "stored", "ratio", "filters"},
                                  .is_head = true,
                                  .colour = kFaint,
                                  .notes = {}});
  const std::array<size_t, kColumns> widths = widths_for(rows, style);
  for (const Row& row : rows) {
    std::string line = line_of(row, widths);
    if (width != 0) line = cut_to(line, width);
    text += (row.colour == nullptr ? line : style.painted(row.colour, line)) + "\n";
    const std::string indent(columns_of(row.branches) + 2, ' ');
    for (const std::string& note : row.notes)
      text += style.painted(kRed, wrap_to(indent + "! " + note, width, indent + "  ")) + "\n";
  }
  return text;
}

std::string variable_text(const InfoNode& node, const Variable& described, size_t width) {
  const VariableInfo& info = *node.variable;
  std::string text = wrap_to("/" + printable(node.path), width, "") + "\n";
  const auto add = [&](std::string_view name, std::string_view value) {
    if (!value.empty())
      text += wrap_to(fmt::format("  {:<12} {}", name, printable(value)), width, std::string(15, ' ')) + "\n";
  };
  add("type", type_text(described));
  add("shape", list_text(described.grid.shape()));
  if (described.dimensions) {
    std::string names;
    const OptionalNames named = named_dimensions(*described.dimensions, described.attributes);
    for (size_t d = 0; d < named.size(); ++d)
      names += (names.empty() ? "" : ", ") + (*described.dimensions)[d] + (named[d] ? "" : " (generated)");
    add("dimensions", names);
  }
  if (!described.max_shape.empty()) {
    std::string most;
    for (const auto& extent : described.max_shape)
      most += (most.empty() ? "" : " × ") + (extent ? std::to_string(*extent) : std::string("unlimited"));
    if (most != list_text(described.grid.shape())) add("at most", most);
  }
  if (described.grid.rank() != 0 || described.storage != Storage::chunked) add("chunks", storage_text(described));
  add("filters", filters_text(described.filters));
  if (const Result<std::string> spec = filters::print_filter_spec(described.filters); spec && !spec->empty())
    add("as a spec", *spec);
  add("flags", flags_text(described.filters));
  if (!described.filters.empty()) add("as codecs", print_json(filters::print_codecs(described.filters)));
  if (!described.fill_value.is_null()) add("fill value", print_json(described.fill_value));
  add("stored", fmt::format("{} in {} of {}", human_bytes(info.stored_bytes), human_count(info.stored_chunks),
                            counted(described.grid.count(), "chunk")));
  if (info.masked_chunks > 0) add("skipped", fmt::format("filters in {}", counted(info.masked_chunks, "chunk")));
  if (info.decoded_bytes != 0) add("decoded", human_bytes(info.decoded_bytes));
  add("ratio", ratio_text(decoded_of_stored(info), info.stored_bytes));
  if (info.error) add("error", info.error->reason);
  for (const Error& missing : info.missing) add("missing", missing.reason);
  if (described.unreadable) add("unreadable", described.unreadable->reason);
  if (described.unreadable_attributes) add("attributes", described.unreadable_attributes->reason);
  std::vector<Attribute> attributes = described.attributes;
  restore_floats(attributes);
  std::erase_if(attributes, [](const Attribute& attribute) {
    return attribute.name == kPhonyDimensions || attribute.name == kStoredTypes || attribute.name == kStoredLinks;
  });
  if (!attributes.empty()) text += "  attributes\n";
  for (const Attribute& attribute : attributes)
    text += wrap_to(fmt::format("    {} = {}", printable(attribute.name), printable(attribute_text(attribute.value))),
                    width, std::string(6, ' ')) +
            "\n";
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
      if (std::string stored = filters::print_stored_spec(facts.filters); !stored.empty())
        variable["filter_stored"] = std::move(stored);
      variable["codecs"] = filters::print_codecs(facts.filters);
      variable["stored_chunks"] = found.stored_chunks;
      variable["all_chunks"] = facts.grid.count();
      variable["stored_bytes"] = found.stored_bytes;
      variable["masked_chunks"] = found.masked_chunks;
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
