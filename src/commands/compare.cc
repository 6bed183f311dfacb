#include "commands/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "backends/api/link_notes.h"
#include "backends/api/names.h"
#include "base/human.h"
#include "base/progress_reporter.h"
#include "base/terminal_text.h"
#include "commands/attribute_forms.h"
#include "commands/dataset_info.h"
#include "commands/elements.h"
#include "commands/netcdf_booleans.h"
#include "commands/variable_comparison.h"
#include "commands/walk.h"
#include "commands/workers.h"
#include "model/float_attributes.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

/// The type without its byte order.
DataType ordered(DataType type) {
  if (type.order == ByteOrder::big) type.order = ByteOrder::little;
  for (TypeMember& member : type.members) member.type = ordered(member.type);
  return type;
}

/// netCDF and xarray repeat the fill value as an attribute, which a conversion may add. It says nothing new if the
/// other side has no such attribute and the same fill.
std::vector<Attribute> without_known_fill(const Variable& variable, const Variable& other) {
  const auto is_fill = [](const Attribute& attribute) { return attribute.name == kFillAttribute; };
  std::vector<Attribute> attributes = variable.attributes;
  if (std::ranges::none_of(other.attributes, is_fill) && fill_element(variable) == fill_element(other))
    std::erase_if(attributes, is_fill);
  return attributes;
}

/// The names of dimensions that the source has, or a copy of it.
OptionalNames names_in(const Variable& variable) {
  std::optional<OptionalNames> names = all_names_of(variable);
  if (!names) return OptionalNames(variable.grid.rank());
  if (has_unnamed(*names)) return *std::move(names);
  std::vector<std::string> all;
  for (std::optional<std::string>& name : *names) all.push_back(*std::move(name));
  return named_dimensions(all, variable.attributes);
}

Json names_json(const OptionalNames& names) {
  Json json = Json::array();
  for (const std::optional<std::string>& name : names) json.push_back(name ? Json(*name) : Json());
  return json;
}

/// Without an attribute that says no more than the names of the dimensions.
std::vector<Attribute> without_known_names(const Variable& variable, std::vector<Attribute> attributes) {
  const std::optional<OptionalNames> names = all_names_of(variable);
  if (names)
    std::erase_if(attributes, [&](const Attribute& attribute) {
      return attribute.name == kDimensions && *attribute.value == names_json(*names);
    });
  return attributes;
}

/// Whether both sides name a dimension, and not alike.
bool have_other_names(const Variable& one, const Variable& other) {
  const auto differ = [](const auto& left, const auto& right) { return left && right && *left != *right; };
  const OptionalNames names = names_in(one);
  const OptionalNames others = names_in(other);
  return names.size() != others.size() || !std::ranges::equal(names, others, std::not_fn(differ));
}

std::string short_text(const Json& value) { return cut_to(print_json(value), 200); }

class DatasetComparison {
 public:
  DatasetComparison(Source& one, Source& other) : one_(one), other_(other) {}

  Result<Comparison> run() {
    std::map<std::string, Entry> ones;
    std::map<std::string, Entry> others;
    CODECFS_TRY(collect(one_, ones));
    CODECFS_TRY(collect(other_, others));
    if (is_zarr(one_) && !is_zarr(other_)) restore_names(ones, others);
    if (is_zarr(other_) && !is_zarr(one_)) restore_names(others, ones);
    add_linked(one_, ones, others);
    add_linked(other_, others, ones);
    for (const auto& [path, entry] : others)
      if (!ones.contains(path) && !is_below_unreadable(path))
        differ(path, fmt::format("only in the second ({})", kind_of(entry)));
    ProgressReporter progress("comparing", ProgressReporter::Unit::bytes);
    progress.expect(total_of(ones));
    for (const auto& [path, entry] : ones) {
      const auto found = others.find(path);
      if (is_below_unreadable(path))
        continue;
      else if (found == others.end())
        differ(path, fmt::format("only in the first ({})", kind_of(entry)));
      else if (found->second.kind != entry.kind)
        differ(path, fmt::format("a {} in the first, a {} in the second", kind_of(entry), kind_of(found->second)));
      else if (entry.kind == EntryKind::group)
        compare_groups(path, entry, found->second);
      else if (entry.kind == EntryKind::variable)
        CODECFS_TRY(compare_variables(path, entry, found->second, progress));
    }
    return std::move(found_);
  }

 private:
  static const char* kind_of(const Entry& entry) { return entry.kind == EntryKind::variable ? "variable" : "group"; }

  static bool is_netcdf(Source& source) { return source.format() == "netCDF-4"; }
  static bool is_zarr(Source& source) { return source.chains_for_numcodecs_in(source.root().object); }
  static std::string path_before_copy(const std::string& path) {
    if (path.empty()) return path;
    std::string before;
    for (const auto part : std::views::split(path, '/'))
      before += name_before_copy(std::string_view(part.begin(), part.end())) + "/";
    before.pop_back();
    return before;
  }

  /// Names of HDF5 that Zarr cannot have are escaped in a copy.
  static void restore_names(std::map<std::string, Entry>& copy, const std::map<std::string, Entry>& original) {
    std::vector<std::pair<std::string, std::string>> changed;
    for (const auto& [path, entry] : copy)
      if (std::string before = path_before_copy(path); !original.contains(path) && original.contains(before))
        changed.emplace_back(path, std::move(before));
    for (auto& [path, before] : changed) {
      auto node = copy.extract(path);
      node.key() = std::move(before);
      copy.insert(std::move(node));
    }
  }

  /// Groups and variables by path. Links are other names of these.
  Result<> collect(Source& source, std::map<std::string, Entry>& entries) {
    return walk(
        source,
        [&](const std::string& path, const Entry& entry) -> Result<> {
          if (entry.kind == EntryKind::group || entry.kind == EntryKind::variable) entries.emplace(path, entry);
          return interrupted ? Result<>(fail(ECANCELED, "interrupted")) : Result<>();
        },
        [&](const std::string& path, const Error& error) -> Result<> {
          not_known(path, error.reason);
          unreadable_.insert(path);
          return {};
        });
  }

  /// What only the other side has, where links of this one lead to something: a format without links has copies.
  void add_linked(Source& source, std::map<std::string, Entry>& entries, const std::map<std::string, Entry>& others) {
    for (const auto& [path, other] : others) {
      if (entries.contains(path) || is_below_unreadable(path)) continue;
      const Result<Entry> found = find_path(source, path);
      const int code = found ? 0 : found.error().code;
      if (code != 0 && code != ENOENT && code != ENOTDIR && code != ELOOP) {
        not_known(path, found.error().reason);
        unreadable_.insert(path);
      }
      if (found && (found->kind == EntryKind::group || found->kind == EntryKind::variable))
        entries.emplace(path, *found);
    }
  }

  /// Whether it is what cannot be read in one of the two, or a member of that.
  [[nodiscard]] bool is_below_unreadable(const std::string& path) const {
    return std::ranges::any_of(unreadable_, [&](const std::string& top) { return is_within(path, top); });
  }

  /// The decoded bytes of a variable, for the progress; at most 1 PiB, so that sums do not overflow.
  static uint64_t work_of(const Variable& variable) {
    constexpr uint64_t kMax = uint64_t{1} << 50;
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(variable.grid.count(), variable.chunk_bytes.value_or(0), &bytes)) return kMax;
    return std::min(bytes, kMax);
  }

  uint64_t total_of(const std::map<std::string, Entry>& entries) {
    uint64_t total = 0;
    for (const auto& [path, entry] : entries) {
      if (entry.kind != EntryKind::variable) continue;
      if (const Result<VariablePtr> facts = one_.facts(entry.object)) total += work_of(**facts);
    }
    return total;
  }

  void differ(const std::string& path, std::string text, DifferenceKind kind = DifferenceKind::content) {
    ++found_.differences;
    if (kind == DifferenceKind::form) ++found_.differences_of_form;
    if (found_.different.size() < Comparison::kMaxListed) found_.different.push_back({path, std::move(text), kind});
  }
  void not_known(const std::string& path, std::string text) { found_.unknown.push_back({path, std::move(text)}); }

  void compare_attributes(const std::string& path, std::vector<Attribute> one, std::vector<Attribute> other) {
    for (std::vector<Attribute>* const side : {&one, &other}) {  // without what codecfs itself says of them
      restore_floats(*side);
      std::erase_if(*side, [](const Attribute& attribute) {
        return attribute.name == kPhonyDimensions || attribute.name == kStoredTypes || attribute.name == kStoredLinks;
      });
    }
    const auto find = [](const std::vector<Attribute>& all, const std::string& name) {
      return std::ranges::find(all, name, &Attribute::name);
    };
    const bool has_netcdf = is_netcdf(one_) || is_netcdf(other_);
    const auto are_same = [&](const Json& left, const Json& right) {
      return is_same_value(left, right) || (has_netcdf && is_same_value(netcdf_form(left), netcdf_form(right)));
    };
    for (const Attribute& attribute : one) {
      const auto same = find(other, attribute.name);
      if (same == other.end())
        differ(path, fmt::format("attribute {}: only in the first", attribute.name));
      else if (!are_same(attribute.value, same->value))
        differ(
            path,
            fmt::format("attribute {}: {}, {}", attribute.name, short_text(attribute.value), short_text(same->value)),
            has_same_content(attribute, *same) ? DifferenceKind::form : DifferenceKind::content);
    }
    for (const Attribute& attribute : other)
      if (find(one, attribute.name) == one.end())
        differ(path, fmt::format("attribute {}: only in the second", attribute.name));
  }

  void compare_groups(const std::string& path, const Entry& one, const Entry& other) {
    ++found_.groups;
    const auto left = one_.group_attributes(one.object);
    const auto right = other_.group_attributes(other.object);
    if (left && right) return compare_attributes(path, *left, *right);
    not_known(path, left ? right.error().reason : left.error().reason);
  }

  Result<> compare_variables(const std::string& path, const Entry& one, const Entry& other,
                             ProgressReporter& progress) {
    ++found_.variables;
    const Result<VariablePtr> left = one_.variable(one.object);
    const Result<VariablePtr> right = other_.variable(other.object);
    if (!left || !right) {
      not_known(path, left ? right.error().reason : left.error().reason);
      return {};
    }
    VariablePtr one_shown = unmark_booleans(*left);
    VariablePtr other_shown = unmark_booleans(*right);
    if (has_numbered_booleans(*one_shown) != has_numbered_booleans(*other_shown)) {
      one_shown = number_booleans(*left);
      other_shown = number_booleans(*right);
      const bool is_of_netcdf =
          is_netcdf(one_) || is_netcdf(other_) || (*left)->dimension_paths || (*right)->dimension_paths;  // of NCZarr
      if ((one_shown != *left || other_shown != *right) && !is_of_netcdf)
        differ(path, "booleans, and the numbers that xarray has for them in netCDF", DifferenceKind::form);
    }
    const Variable& a = *one_shown;
    const Variable& b = *other_shown;
    if (a.unreadable_attributes || b.unreadable_attributes)
      not_known(path, (a.unreadable_attributes ? a : b).unreadable_attributes->reason);
    else
      compare_attributes(path, without_known_names(a, without_known_fill(a, b)),
                         without_known_names(b, without_known_fill(b, a)));
    if (const auto ours = all_names_of(a), theirs = all_names_of(b); ours && theirs && have_other_names(a, b))
      differ(path, fmt::format("dimensions: {}, {}", print_json(names_json(*ours)), print_json(names_json(*theirs))));
    bool as_texts = false;
    if (ordered(a.type) != ordered(b.type) || a.object_codec != b.object_codec) {
      as_texts = has_texts(a) && has_texts(b);
      differ(path, fmt::format("type: {}, {}", print_json(print_dtype(a.type)), print_json(print_dtype(b.type))),
             as_texts ? DifferenceKind::form : DifferenceKind::content);
      if (!as_texts) return {};
    }
    if (a.grid.shape() != b.grid.shape()) {
      differ(path, fmt::format("shape: {}, {}", print_json(Json(a.grid.shape())), print_json(Json(b.grid.shape()))));
      return {};
    }
    if (a.unreadable || b.unreadable) {
      not_known(path, (a.unreadable ? a : b).unreadable->reason);
      return {};
    }
    VariableComparison values({one_, one.object, one_shown}, {other_, other.object, other_shown}, as_texts);
    std::atomic<uint64_t> done = 0;
    const Result<> compared = values.run([&](uint64_t bytes) {
      done += bytes;
      progress.add(bytes);
    });
    if (const uint64_t work = work_of(a); done < work) progress.add(work - done);  // absent chunks
    found_.bytes += values.compared_bytes();
    if (!compared && compared.error().code == ECANCELED) return compared;
    if (!compared) not_known(path, compared.error().reason);
    if (values.differing() > 0)
      differ(path, fmt::format("{} differ{}, the first {}", counted(values.differing(), "element"),
                               values.differing() == 1 ? "s" : "", values.first_text()));
    else if (const std::string text = values.first_text(); !text.empty())
      differ(path, text);
    return {};
  }

  Source& one_;
  Source& other_;
  std::set<std::string> unreadable_;  // paths
  Comparison found_;
};

Json list_json(const std::vector<Difference>& list) {
  Json json = Json::array();
  for (const Difference& item : list) json.push_back({{"path", "/" + item.path}, {"text", item.text}});
  return json;
}

Json different_json(const std::vector<Difference>& list) {
  Json json = list_json(list);
  for (size_t i = 0; i < list.size(); ++i) json[i]["kind"] = list[i].kind == DifferenceKind::form ? "form" : "content";
  return json;
}

}  // namespace

Result<Comparison> compare(Source& one, Source& other) { return DatasetComparison(one, other).run(); }

std::string comparison_text(const Comparison& found, const std::string& one, const std::string& other) {
  std::string text;
  for (const Difference& item : found.different)
    text += printable(fmt::format("/{}: {}{}", item.path, item.text,
                                  item.kind == DifferenceKind::form ? " (only the form differs)" : "")) +
            "\n";
  if (found.differences > found.different.size())
    text += fmt::format("and {} more differences\n", human_count(found.differences - found.different.size()));
  for (const Difference& item : found.unknown)
    text += printable(fmt::format("/{}: not compared: {}", item.path, item.text)) + "\n";
  if (found.differences_of_form > 0)
    text += fmt::format("{} of the content, {} of the form\n",
                        counted(found.differences - found.differences_of_form, "difference"),
                        human_count(found.differences_of_form));
  if (found.differences == 0 && found.unknown.empty())
    text += fmt::format("{} and {} have the same content: {}, {} compared\n", printable(one), printable(other),
                        counted(found.variables, "variable"), human_bytes(found.bytes));
  return text;
}

Json comparison_json(const Comparison& found, const std::string& one, const std::string& other) {
  return {{"first", one},
          {"second", other},
          {"groups", found.groups},
          {"variables", found.variables},
          {"compared_bytes", found.bytes},
          {"differences", found.differences},
          {"differences_of_form", found.differences_of_form},
          {"different", different_json(found.different)},
          {"not_compared", list_json(found.unknown)}};
}

}  // namespace codecfs::commands
