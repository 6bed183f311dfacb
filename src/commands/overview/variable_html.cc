#include "commands/overview/variable_html.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>

#include "base/human.h"
#include "commands/info_facts.h"
#include "commands/overview/html.h"
#include "commands/overview/picture.h"
#include "filters/core/codec_json.h"
#include "model/json.h"

namespace codecfs::commands::overview {
namespace {

constexpr size_t kMaxName = 400;     // bytes of a text in the page
constexpr size_t kLineBytes = 120;   // of first values
constexpr size_t kMaxValue = 2000;   // of an attribute
constexpr size_t kMaxReason = 1000;  // of an error

/// "(time: 2, lat: 18, 36)"; empty for a scalar.
std::string shape_text(const InfoNode& node, const Variable& facts) {
  std::vector<std::string> names(facts.grid.rank());
  if (node.details && node.details->described && node.details->described->grid.rank() == names.size())
    names = dimension_names(*node.details->described);
  std::string text;
  for (size_t d = 0; d < names.size(); ++d)
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", names[d], names[d].empty() ? "" : ": ",
                        facts.grid.shape()[d]);
  return text.empty() ? "" : "(" + text + ")";
}

/// Why there is no picture; empty if there is one, or a problem is told in its place.
std::string no_picture_reason(const VariableOverview& look) {
  if (!look.sample) return look.values && !look.values->error ? "no picture of this type" : "";
  const Sample& sample = *look.sample;
  if (sample.none) return *sample.none;
  if (sample.statistics.elements == 0) return "";
  if (sample.statistics.valid == 0) return "only fill and missing values";
  return sample.kind == PictureKind::none ? "one value" : "";
}

void append_statistics(std::string& html, const Sample& sample, const Conventions& says) {
  const Statistics& found = sample.statistics;
  if (found.elements == 0) return;
  html += "<div class=\"stats\">";
  const auto add = [&](std::string_view name, const std::string& value) {
    html += fmt::format("<span><span>{}</span> {}</span>", name, value);
  };
  const bool is_single = found.elements == 1 && sample.has_all();
  if (found.valid > 0 && is_single) {
    add("value", number_text(found.mean));
  } else if (found.valid > 0) {
    add("least", number_text(found.least));
    add("mean", number_text(found.mean));
    add("greatest", number_text(found.greatest));
  }
  if (!is_single || found.valid == 0)
    add(says.fill && found.fill > 0 ? fmt::format("fill ({})", number_text(*says.fill)) : "fill",
        share_text(found.fill, found.elements));
  if (!sample.has_all())
    add("from a sample:", fmt::format("{} of {}", human_count(sample.chunks), counted(sample.all_chunks, "chunk")));
  html += "</div>";
}

/// The first values, as far as they fit in one line.
std::string values_line(const FirstValues& values, size_t most) {
  std::string line;
  size_t count = 0;
  for (const std::string& value : values.texts) {
    if (!line.empty() && line.size() + value.size() > most) break;
    line += (line.empty() ? "" : ", ") + value;
    ++count;
  }
  return line + (values.is_all && count == values.texts.size() ? "" : ", …");
}

void append_fact(std::string& html, std::string_view name, std::string_view value) {
  if (!value.empty()) html += fmt::format("<dt>{}</dt><dd>{}</dd>", name, escaped_part(value, kMaxValue));
}

std::string colours_text(const ColourScale& scale) {
  switch (scale.map) {
    case ColourMap::sequential:
      return scale.is_cut ? "dark to bright; 2 % of the cells on each side are beyond the ends" : "dark to bright";
    case ColourMap::diverging: return scale.is_cut ? "around 0, cut at both ends" : "around 0";
    case ColourMap::grey: return "grey";
    case ColourMap::named: break;
  }
  return "one for each flag";
}

void append_facts(std::string& html, const InfoNode& node, const VariableOverview& look, const ColourScale* scale) {
  const VariableInfo& info = *node.variable;
  const Variable& facts = *info.facts;
  html += "<dl>";
  append_fact(html, "path", "/" + node.path);
  append_fact(html, "shape", list_text(facts.grid.shape()));
  append_fact(html, "chunks", facts.grid.rank() == 0 ? "" : storage_text(facts));
  append_fact(html, "filters", filters_text(facts.filters));
  if (const Result<std::string> spec = filters::print_filter_spec(facts.filters); spec)
    append_fact(html, "as a spec", *spec);
  append_fact(html, "in words", fmt::format("{}", fmt::join(parameter_lines(facts.filters), "; ")));
  if (!facts.fill_value.is_null()) append_fact(html, "fill value", print_json(facts.fill_value));
  append_fact(html, "stored",
              fmt::format("{} in {} of {}", human_bytes(info.stored_bytes), human_count(info.stored_chunks),
                          counted(facts.grid.count(), "chunk")));
  if (info.masked_chunks > 0)
    append_fact(html, "skipped", fmt::format("filters in {}", counted(info.masked_chunks, "chunk")));
  if (info.decoded_bytes != 0) append_fact(html, "decoded", human_bytes(info.decoded_bytes));
  const Conventions& says = look.conventions;
  if (says.is_packed)
    append_fact(html, "unpacked", fmt::format("number × {} + {}", number_text(says.scale), number_text(says.offset)));
  if (look.sample && !look.sample->shown.empty() && scale != nullptr) {
    append_fact(html, "picture",
                look.sample->shown + (look.sample->is_upward ? ", north above" : "") +
                    (facts.type.kind == TypeKind::complex ? ", magnitude" : ""));
    if (look.sample->kind == PictureKind::heat) append_fact(html, "colours", colours_text(*scale));
  }
  if (look.values && !look.values->texts.empty()) append_fact(html, "values", values_line(*look.values, kMaxValue));
  html += "</dl>";
}

std::string summary_text(const VariableInfo& info) {
  std::string text = human_bytes(info.stored_bytes);
  if (const std::string ratio = ratio_text(decoded_of_stored(info), info.stored_bytes); !ratio.empty())
    text += " · " + ratio;
  if (info.facts->grid.rank() != 0) text += " · " + storage_text(*info.facts);
  if (!info.facts->filters.empty()) text += " · " + filters_text(info.facts->filters);
  return text;
}

}  // namespace

std::vector<std::string> problems_of(const InfoNode& node, const VariableOverview* look) {
  std::vector<std::string> problems;
  const auto add = [&](const std::optional<Error>& error) {
    if (error && std::ranges::find(problems, error->reason) == problems.end()) problems.push_back(error->reason);
  };
  add(node.error);
  if (node.variable) {
    add(node.variable->error);
    for (const Error& missing : node.variable->missing) add(missing);
    if (node.variable->facts) add(node.variable->facts->unreadable);
  }
  if (look != nullptr && look->sample) {
    const std::vector<Error>& errors = look->sample->errors;
    for (size_t i = 0; i < std::min<size_t>(errors.size(), 3); ++i) add(errors[i]);
    if (errors.size() > 3)
      problems.push_back(fmt::format("and {} that cannot be read", counted(errors.size() - 3, "chunk")));
  }
  if (look != nullptr && look->values) add(look->values->error);
  if (node.details) add(node.details->error);
  return problems;
}

void append_variable(std::string& html, const InfoNode& node, const VariableOverview& look, size_t number,
                     PageBudget& budget) {
  const VariableInfo& info = *node.variable;
  html += fmt::format("<details class=\"var\" id=\"n{}\"><summary><span class=\"pic\">", number);
  std::optional<ColourScale> scale;
  if (look.sample && look.sample->kind != PictureKind::none && !look.sample->none && info.facts) {
    scale = scale_for(*info.facts, look.conventions, *look.sample);
    std::string picture = picture_html(*look.sample, *scale, node.path + look.sample->shown);
    if (picture.size() > budget.picture_bytes) {
      html += "<small>not drawn: the pictures before it have taken their share of the page</small>";
      scale.reset();
    } else {
      budget.picture_bytes -= picture.size();
      html += picture;
    }
  }
  const std::string reason = no_picture_reason(look);
  if (!reason.empty()) html += fmt::format("<small>{}</small>", escaped_part(reason, kMaxReason));
  const std::string name = node.path.empty() ? "(the root is an array)" : node.entry.name;
  html += fmt::format("</span><span class=\"main\"><b>{}</b>", escaped_part(name, kMaxName));
  if (info.facts) {
    html += fmt::format(" {} <span class=\"type\">{}</span>", escaped_part(shape_text(node, *info.facts), kMaxName),
                        escaped_part(type_text(*info.facts), kMaxName));
    const Conventions& says = look.conventions;
    std::string title = says.long_name.empty() ? says.standard_name : says.long_name;
    const bool names_units = !says.units.empty() && title.contains("[" + says.units + "]");
    if (!says.units.empty() && !names_units) title += (title.empty() ? "[" : " [") + says.units + "]";
    if (!title.empty()) html += fmt::format("<div>{}</div>", escaped_part(title, kMaxName));
    if (look.sample) append_statistics(html, *look.sample, says);
    if (look.values && !look.sample && !look.values->texts.empty())
      html += fmt::format("<div>{}</div>", escaped_part(values_line(*look.values, kLineBytes), kMaxName));
    html += fmt::format("<div class=\"faint\">{}</div>", escaped_part(summary_text(info), kMaxName));
  }
  for (const std::string& problem : problems_of(node, &look))
    html += fmt::format("<div class=\"bad\">{}</div>", escaped_part(problem, kMaxReason));
  html += "</span></summary><div class=\"body\">";
  if (info.facts) append_facts(html, node, look, scale ? &*scale : nullptr);
  if (node.details) append_attribute_table(html, *node.details, budget);
  html += "</div></details>\n";
}

void append_row(std::string& html, const InfoNode& node, size_t number) {
  const VariableInfo& info = *node.variable;
  html += fmt::format("<p class=\"row\" id=\"n{}\">{}", number, escaped_part(node.entry.name, kMaxName));
  if (info.facts) {
    html += fmt::format(" <i>{} {} {}", escaped_part(type_text(*info.facts), kMaxName),
                        list_text(info.facts->grid.shape()), human_bytes(info.stored_bytes));
    if (!info.facts->filters.empty()) html += " " + escaped_part(filters_text(info.facts->filters), kMaxName);
    html += "</i>";
  }
  for (const std::string& problem : problems_of(node, nullptr))
    html += fmt::format(" <span class=\"bad\">{}</span>", escaped_part(problem, kMaxReason));
  html += "</p>\n";
}

void append_attribute_table(std::string& html, const NodeDetails& details, PageBudget& budget) {
  if (details.attributes.empty() && details.left_out.empty()) return;
  const size_t begin = html.size();
  html += "<table>";
  size_t left = details.attributes.size();
  for (const Attribute& attribute : details.attributes) {
    if (html.size() - begin > budget.attribute_bytes) break;
    --left;
    html += fmt::format("<tr><th>{}</th><td class=\"value\">{}</td><td>{}</td></tr>",
                        escaped_part(attribute.name, kMaxName), escaped_part(attribute_text(attribute), kMaxValue),
                        escaped(attribute_type(attribute)));
  }
  if (left > 0)
    html += fmt::format("<tr><th></th><td class=\"value\">{}: the page would be too large</td><td></td></tr>",
                        counted(left, "further attribute"));
  for (const LeftOutAttribute& attribute : details.left_out)
    html += fmt::format("<tr><th>{}</th><td class=\"value bad\">{}</td><td></td></tr>",
                        escaped_part(attribute.name, kMaxName), escaped_part(attribute.error.reason, kMaxReason));
  html += "</table>";
  budget.attribute_bytes -= std::min(budget.attribute_bytes, html.size() - begin);
}

}  // namespace codecfs::commands::overview
