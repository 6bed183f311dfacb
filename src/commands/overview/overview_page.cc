#include "commands/overview/overview_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/human.h"
#include "commands/dataset_details.h"
#include "commands/info_facts.h"
#include "commands/overview/html.h"
#include "commands/overview/page_style.h"
#include "commands/overview/variable_html.h"
#include "commands/overview/variable_overview.h"

namespace codecfs::commands::overview {
namespace {

constexpr size_t kMaxProblems = 20;     // in the list at the top
constexpr size_t kFewVariables = 200;   // with more, pictures have fewer cells
constexpr size_t kOpenVariables = 100;  // groups behind so many are closed at first
constexpr size_t kOpenAttributes = 12;  // more are closed at first

size_t depth_of(const std::string& path) {
  return path.empty() ? 0 : 1 + static_cast<size_t>(std::ranges::count(path, '/'));
}

/// Writes the nodes in their order; groups are open until a node that is not below them.
class Page {
 public:
  Page(const DatasetInfo& info, const PageRules& rules, std::span<const std::optional<VariableOverview>> looks)
      : info_(info), rules_(rules), looks_(looks), top_(depth_of(info.nodes[0].path)) {
    count_members();
  }

  std::string text(const std::string& generator) {
    append_head(generator);
    append_problems();
    html_ += "<main>\n";
    size_t number = 0;
    for (; number < info_.nodes.size() && html_.size() < rules_.page_bytes; ++number) append_node(number);
    close_to(0);
    if (number < info_.nodes.size())
      html_ += fmt::format("<p class=\"bad\">{} are not listed: the page would be too large</p>\n",
                           counted(info_.nodes.size() - number, "further object"));
    html_ += fmt::format("</main>\n{}<footer>{}</footer>\n</body></html>\n", legend(), escaped(generator));
    return std::move(html_);
  }

 private:
  static bool is_group(const InfoNode& node) {
    return node.entry.kind == EntryKind::group || node.entry.kind == EntryKind::folder;
  }

  /// How many variables are below each group.
  void count_members() {
    members_.resize(info_.nodes.size());
    std::vector<size_t> open;  // groups, by depth
    for (size_t i = 0; i < info_.nodes.size(); ++i) {
      const InfoNode& node = info_.nodes[i];
      open.resize(std::min(open.size(), depth_of(node.path) - std::min(depth_of(node.path), top_)));
      if (node.variable)
        for (const size_t group : open) ++members_[group];
      open.push_back(i);
    }
  }

  void append_head(const std::string& generator) {
    const Totals totals = totals_of(info_);
    std::string_view source = info_.source;
    while (source.size() > 1 && source.ends_with('/')) source.remove_suffix(1);
    std::string name(source.substr(source.rfind('/') + 1));
    if (!info_.nodes[0].path.empty()) name += " /" + info_.nodes[0].path;
    std::string facts =
        fmt::format("{}{}{} · {} · {}", source.contains('/') ? source : "", source.contains('/') ? " · " : "",
                    info_.format, counted(totals.groups, "group"), counted(totals.variables, "variable"));
    if (info_.source_bytes != 0) facts += " · " + human_bytes(info_.source_bytes);
    std::string sizes;
    if (totals.variables != 0) {
      sizes = fmt::format("{} stored, {} decoded", human_bytes(totals.stored), human_bytes(totals.decoded));
      if (const std::string ratio = ratio_text(totals.decoded_of_stored, totals.stored); !ratio.empty())
        sizes += ", ratio " + ratio;
    }
    html_ += fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"{}\">\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "img-src data:\">\n<title>{}</title>\n<style>{}</style></head>\n<body>\n<header><h1>{}</h1><p>{}</p><p>{}</p>"
        "</header>\n",
        escaped(generator), escaped(name), page_css(), escaped(name), escaped(facts), sizes);
  }

  void append_problems() {
    std::string list;
    size_t count = 0;
    for (size_t i = 0; i < info_.nodes.size(); ++i) {
      const std::vector<std::string> problems = problems_of(info_.nodes[i], look(i));
      if (problems.empty() || count++ >= kMaxProblems) continue;
      list += fmt::format("<li><a href=\"#n{}\">/{}</a>: {}</li>", i, escaped_part(info_.nodes[i].path, 200),
                          escaped_part(problems.front(), 400));
    }
    if (count == 0) return;
    if (count > kMaxProblems) list += fmt::format("<li>and {} more</li>", human_count(count - kMaxProblems));
    html_ += fmt::format(
        "<section class=\"problems\"><b class=\"bad\">{} cannot be read completely</b><ul>{}</ul>"
        "</section>\n",
        counted(count, "object"), list);
  }

  void close_to(size_t depth) {
    for (; open_groups_ > depth; --open_groups_) html_ += "</div></details>\n";
  }

  void append_node(size_t number) {
    const InfoNode& node = info_.nodes[number];
    close_to(depth_of(node.path) - std::min(depth_of(node.path), top_));
    if (is_group(node)) return append_group(number);
    if (!node.variable) {
      const std::string arrow = node.entry.kind == EntryKind::symlink ? " → " + escaped(node.entry.target) : "";
      html_ += fmt::format("<p class=\"row\" id=\"n{}\">{}<i>{}</i>", number, escaped(node.entry.name), arrow);
      for (const std::string& problem : problems_of(node, nullptr))
        html_ += fmt::format(" <span class=\"bad\">{}</span>", escaped(problem));
      html_ += "</p>\n";
      return;
    }
    ++variables_;
    if (!looks_[number]) {
      append_row(html_, node, number);
      return;
    }
    append_variable(html_, node, *looks_[number], number, budget_);
  }

  void append_group(size_t number) {
    const InfoNode& node = info_.nodes[number];
    const bool is_top = number == 0;
    const std::string name = is_top ? "/" + node.path : node.entry.name + "/";
    const bool is_open = is_top || variables_ < kOpenVariables;
    html_ += fmt::format(
        "<details class=\"group\" id=\"n{}\"{}><summary>{} <span>{}</span></summary>"
        "<div class=\"in{}\">\n",
        number, is_open ? " open" : "", escaped(name), counted(members_[number], "variable"), is_top ? " root" : "");
    ++open_groups_;
    for (const std::string& problem : problems_of(node, nullptr))
      html_ += fmt::format("<p class=\"bad\">{}</p>", escaped(problem));
    if (!node.details) return;
    if (!node.details->dimensions.empty()) {
      html_ += "<p class=\"faint\">dimensions: ";
      std::string list;
      for (const GroupDimension& dimension : node.details->dimensions)
        list += fmt::format("{}{} = {}{}", list.empty() ? "" : ", ", dimension.name, dimension.length,
                            dimension.is_unlimited ? " (unlimited)" : "");
      html_ += escaped_part(list, 4000) + "</p>\n";
    }
    const size_t count = node.details->attributes.size() + node.details->left_out.size();
    if (count == 0) return;
    html_ += fmt::format("<details class=\"attrs\"{}><summary>{}</summary>", count <= kOpenAttributes ? " open" : "",
                         counted(count, "attribute"));
    append_attribute_table(html_, *node.details, budget_);
    html_ += "</details>\n";
  }

  [[nodiscard]] const VariableOverview* look(size_t number) const {
    return looks_[number] ? &*looks_[number] : nullptr;
  }

  static std::string legend() {
    return "<p class=\"faint\">A picture shows the mean of the elements in each cell; hatched cells have only fill or "
           "missing values. A line has the mean, and a bar from the least to the greatest. Numbers are unpacked with "
           "<code>scale_factor</code> and <code>add_offset</code> where a variable has them.</p>\n";
  }

  const DatasetInfo& info_;
  const PageRules& rules_;
  const std::span<const std::optional<VariableOverview>> looks_;
  const size_t top_;  // depth of the first node
  std::vector<size_t> members_;
  PageBudget budget_{rules_.picture_bytes, rules_.attribute_bytes};
  std::string html_;
  size_t open_groups_ = 0;
  size_t variables_ = 0;  // that were written
};

}  // namespace

Result<std::string> make_page(Source& source, DatasetInfo& info, const PageRules& rules, const std::string& generator) {
  CODECFS_TRY(read_details(source, info, rules.detailed));
  SampleRules samples;
  if (totals_of(info).variables > kFewVariables) {
    samples.width = 96;
    samples.height = 72;
  }
  CODECFS_ASSIGN(const auto looks, look_at_all(source, info, rules.detailed, samples, rules.time));
  return Page(info, rules, looks).text(generator);
}

}  // namespace codecfs::commands::overview
