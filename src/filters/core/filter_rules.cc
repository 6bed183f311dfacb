// Rules are parsed once, at mount; resolve() compares names and concatenates pipelines.

#include "filters/core/filter_rules.h"

#include <algorithm>
#include <utility>

#include "filters/core/filter_spec.h"

namespace codecfs::filters {
namespace {

constexpr uint64_t kChecksumBytes = 4;

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Reads the names before the first unescaped comma.
class NameReader {
 public:
  explicit NameReader(std::string_view text) : text_(text) {}

  /// Full names; empty for '*'.
  Result<std::vector<std::string>> read() {
    std::vector<std::string> names;
    while (true) {
      CODECFS_ASSIGN(std::string name, read_name());
      const bool ends = at_ == text_.size() || text_[at_] == ',';
      if (!star_at_) {
        CODECFS_ASSIGN(name, full_name(std::move(name)));
        names.push_back(std::move(name));
      } else if (name != "*" || !names.empty() || !ends) {
        return fail_at(text_, *star_at_, "* means all variables and stands alone; in a name it is written \\*");
      }
      if (at_ == text_.size())
        return fail_at(text_, at_, "a filter rule is VARIABLES,FILTERS, or none; the comma is missing");
      if (text_[at_++] == ',') return names;
    }
  }

  /// Position after the comma.
  [[nodiscard]] size_t position() const { return at_; }

 private:
  /// Reads one name without the unescaped white space around it. Stops at the separator, the ',' or the end.
  Result<std::string> read_name() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    name_at_ = at_;
    star_at_.reset();
    std::string name;
    size_t keep = 0;  // length of `name` up to the last character that is not white space
    for (; at_ < text_.size() && text_[at_] != ',' && text_[at_] != '&' && text_[at_] != '|'; ++at_) {
      const bool escaped = text_[at_] == '\\';
      if (escaped && ++at_ == text_.size()) return fail_at(text_, at_, "a backslash needs a character behind it");
      if (!escaped && text_[at_] == '*' && !star_at_) star_at_ = at_;
      name += text_[at_];
      if (escaped || !is_blank(text_[at_])) keep = name.size();
    }
    name.resize(keep);
    if (name.empty()) return fail_at(text_, name_at_, "the name of a variable is missing here");
    return name;
  }

  Result<std::string> full_name(std::string name) const {
    if (name[0] != '/') name.insert(0, 1, '/');
    if (name.size() > 1 && name.back() == '/')
      return fail_at(text_, name_at_, "this is the name of a group; a rule names variables, or * for all");
    if (name.find("//") != std::string::npos) return fail_at(text_, name_at_, "this name has an empty part (//)");
    return name;
  }

  const std::string_view text_;
  size_t at_ = 0;
  size_t name_at_ = 0;             // start of the latest name
  std::optional<size_t> star_at_;  // its first unescaped '*'
};

}  // namespace

Result<> FilterRules::add(std::string_view text) {
  if (is_none(text)) {
    suppress_all_ = true;
    return {};
  }
  NameReader reader(text);
  Rule rule;
  CODECFS_ASSIGN(rule.names, reader.read());
  CODECFS_ASSIGN(rule.chain, parse_filter_spec(text, reader.position()));
  rule.text = text;
  if (rule.names.empty() && rule.chain.empty())
    suppress_all_ = true;
  else
    rules_.push_back(std::move(rule));
  return {};
}

std::optional<std::vector<FilterStage>> FilterRules::resolve(std::string_view name) const {
  bool named = false;
  std::vector<FilterStage> chain;
  for (const Rule& rule : rules_) {
    if (!rule.names.empty() && std::ranges::find(rule.names, name) == rule.names.end()) continue;
    if (rule.chain.empty()) return std::vector<FilterStage>();
    named = true;
    chain.insert(chain.end(), rule.chain.begin(), rule.chain.end());
  }
  if (!named && !suppress_all_) return std::nullopt;
  return arrange_chain(std::move(chain));
}

std::vector<FilterStage> FilterRules::stages() const {
  std::vector<FilterStage> stages;
  for (const Rule& rule : rules_) stages.insert(stages.end(), rule.chain.begin(), rule.chain.end());
  return stages;
}

std::string FilterRules::texts_for(std::string_view name) const {
  std::string texts;
  for (const Rule& rule : rules_)
    if (rule.names.empty() || std::ranges::find(rule.names, name) != rule.names.end())
      texts += fmt::format("{}\"{}\"", texts.empty() ? "" : " ", rule.text);
  return texts;
}

std::vector<std::string> FilterRules::names() const {
  std::vector<std::string> names;
  for (const Rule& rule : rules_) names.insert(names.end(), rule.names.begin(), rule.names.end());
  return names;
}

std::vector<FilterStage> arrange_chain(std::vector<FilterStage> chain) {
  std::vector<FilterStage> arranged;
  for (FilterStage& stage : chain) {
    // Codecs without an HDF5 id all have id 0, but are different filters.
    const auto same =
        std::ranges::find_if(arranged, [&](const FilterStage& other) { return stage.id != 0 && other.id == stage.id; });
    if (same == arranged.end())
      arranged.push_back(std::move(stage));
    else
      *same = std::move(stage);
  }
  for (const uint32_t id : {kShuffleId, kFletcher32Id}) {  // moves each to the front, so fletcher32 ends first
    const auto found = std::ranges::find(arranged, id, &FilterStage::id);
    if (found != arranged.end()) std::rotate(arranged.begin(), found, found + 1);
  }
  return arranged;
}

bool shuffle_goes_first(std::span<const FilterStage> arranged, uint64_t item_size) {
  const bool both = arranged.size() >= 2 && arranged[0].id == kFletcher32Id && arranged[1].id == kShuffleId;
  return both && (item_size == 0 || kChecksumBytes % item_size != 0);
}

}  // namespace codecfs::filters
