// The tree that `codecfs info` prints.

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/human.h"
#include "base/terminal_text.h"
#include "commands/dataset_info.h"
#include "commands/info_facts.h"

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

}  // namespace codecfs::commands
