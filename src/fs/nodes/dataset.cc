#include "fs/nodes/dataset.h"

#include <filesystem>
#include <ranges>
#include <unordered_map>

#include "backends/api/newer_format.h"
#include "base/log.h"
#include "filters/core/codec_json.h"
#include "filters/core/zarr3_chain.h"
#include "fs/nodes/metadata_files.h"
#include "fs/nodes/zarr3_files.h"
#include "model/json.h"
#include "model/memory_estimate.h"

namespace codecfs::fs {
namespace {

Text make_text(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

/// Source::variable(). If it fails as a whole on damaged attributes, for instance because libhdf5 crashed on them, the
/// rest is shown without them.
Result<VariablePtr> describe(Source& source, ObjectId id) {
  Result<VariablePtr> variable = source.variable(id);
  if (variable || !is_unreadable(variable.error().code)) return variable;
  const Result<VariablePtr> facts = source.facts(id);
  if (!facts) return variable;
  auto without = std::make_shared<Variable>(**facts);
  without->attributes.clear();
  without->unreadable_attributes = variable.error();
  without->dimensions.emplace();
  for (size_t d = 0; d < without->grid.rank(); ++d) without->dimensions->push_back(fmt::format("dim_{}", d));
  return VariablePtr(std::move(without));
}

constexpr int kMaxDepth = 1024;  // nested groups: a deeper path would exceed PATH_MAX

/// What consolidated metadata has of one group or variable: keys and texts. Paths are relative to the top group, which
/// is "".
using Members = std::vector<std::pair<std::string, Json>>;
struct ConsolidatedForm {
  std::function<Members(const std::string& path, const Result<std::vector<Attribute>>& attributes)> of_group;
  std::function<Members(const std::string& path, const Variable& variable)> of_variable;
};

/// Collects the metadata of a group and of everything below it, as the text of the members of an object: a tree of JSON
/// values would take ten times its memory.
class Consolidation {
 public:
  /// `indent`: of the members.
  Consolidation(Dataset& dataset, const ConsolidatedForm& form, size_t indent)
      : dataset_(dataset), source_(dataset.source()), form_(form), line_("\n" + std::string(indent, ' ')) {}

  Result<std::string> run(ObjectId group) {
    top_ = group;
    (void)source_.expect_tree(group);  // an error shows again
    CODECFS_TRY(collect(group, "", 0));
    add_links();
    return std::move(members_);
  }

 private:
  struct Link {
    std::string directory;  // "a/b/", "" for the top group
    std::string name;
    std::string target;
  };

  Result<> collect(ObjectId group, const std::string& path, int depth) {
    if (depth > kMaxDepth) return fail(EFBIG, "{}: groups are nested deeper than {}", path, kMaxDepth);
    Result<std::vector<Attribute>> attributes = source_.group_attributes(group);
    if (!attributes && !is_damage(attributes.error())) return pass_on(attributes);
    if (!attributes) warn(path, attributes.error());
    append(form_.of_group(path, attributes));
    const Result<std::vector<Entry>> entries = source_.list(group);
    if (!entries && depth > 0 && is_damage(entries.error())) return omit(path + "/*", entries.error());
    if (!entries) return std::unexpected(entries.error());
    const std::string directory = path.empty() ? "" : path + "/";
    for (const Entry& entry : *entries) {
      const Result<> added = add(entry, directory, depth);
      // An object that is moved or removed concurrently may be missing from the result, but not an existing one.
      if (!added && is_there(group, entry)) return added;
    }
    return {};
  }

  Result<> add(const Entry& entry, const std::string& directory, int depth) {
    const std::string path = directory + entry.name;
    if (entry.kind != EntryKind::symlink && !dataset_.is_as_readable(entry.object, top_)) {
      log::warning("the consolidated metadata leaves out \"/{}\", which not all users may read", path);
      return {};
    }
    if (entry.kind == EntryKind::group) return collect(entry.object, path, depth + 1);
    if (entry.kind == EntryKind::variable) {
      const Result<VariablePtr> variable = describe(source_, entry.object);
      // Readers open nothing of the dataset without consolidated metadata, so it must not fail with one variable.
      if (!variable && (is_damage(variable.error()) || variable.error().code == EOPNOTSUPP))
        return omit(path, variable.error());
      if (!variable) return std::unexpected(variable.error());
      const auto& unreadable = (*variable)->unreadable_attributes;
      if (unreadable && !is_damage(*unreadable)) return std::unexpected(*unreadable);
      if (unreadable) warn(path, *unreadable);
      variables_.emplace(path, entry.object);
      append(form_.of_variable(path, **variable));
    } else {
      links_.push_back({directory, entry.name, entry.target});
    }
    return {};
  }

  /// Whether attributes or a variable are left out, as they cannot be read. In an object store they may be readable
  /// again soon.
  [[nodiscard]] bool is_damage(const Error& error) const {
    return is_unreadable(error.code) && source_.reads_at_once() == 0;
  }

  bool is_there(ObjectId group, const Entry& entry) {
    const Result<Entry> now = source_.find(group, entry.name);
    if (!now) return now.error().code != ENOENT;
    return now->object == entry.object && now->kind == entry.kind;
  }

  void append(const Members& members) {
    for (const auto& [key, json] : members) {
      if (!members_.empty()) members_ += ',';
      members_ += line_ + print_json(Json(key)) + ": ";
      const std::string value = print_json(json, 4);  // has no line breaks in its strings
      for (size_t at = 0, end = 0; end != value.npos; at = end + 1) {
        end = value.find('\n', at);
        members_.append(value, at, end - at);
        if (end != value.npos) members_ += line_;
      }
    }
  }

  static Result<> omit(const std::string& path, const Error& error) {
    log::warning("the consolidated metadata leaves out \"/{}\": {}", path, error.reason);
    return {};
  }

  static void warn(const std::string& path, const Error& error) {
    log::warning("{}: the consolidated metadata has no attributes of \"/{}\"", error.reason, path);
  }

  /// A link to a variable is a variable for readers, so it is listed as one. Links to groups are not listed, as they
  /// may form cycles.
  void add_links() {
    for (const Link& link : links_) {
      const std::string target =
          std::filesystem::path("/" + link.directory + link.target).lexically_normal().string().substr(1);
      const auto variable = variables_.find(target);
      if (variable == variables_.end()) continue;
      if (const Result<VariablePtr> described = describe(source_, variable->second))
        append(form_.of_variable(link.directory + link.name, **described));
    }
  }

  const Dataset& dataset_;
  Source& source_;
  const ConsolidatedForm& form_;
  const std::string line_;  // a line break, and what begins each line
  ObjectId top_{};
  std::string members_;
  std::unordered_map<std::string, ObjectId> variables_;  // by path
  std::vector<Link> links_;
};

std::string file_in(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}/{}", path, name);
}

}  // namespace

Text VariableView::codecs3() const {
  const Result<Json> list = filters::print_zarr3_chain(*facts);
  return list ? make_text(print_json(*list) + "\n") : codecs;
}

Result<VariableViewPtr> Dataset::variable(ObjectId id) {
  if (VariableViewPtr known = variables_.get(id)) return known;
  const uint64_t changes = changes_;
  CODECFS_ASSIGN(VariablePtr facts, source_->facts(id));
  facts = in_form(std::move(facts));
  const auto view = std::make_shared<VariableView>();
  view->zarray = make_text(file_text(zarray_json(*facts)));
  if (const Result<std::string> spec = filters::print_filter_spec(facts->filters))
    view->filter = make_text(spec->empty() ? "none\n" : *spec + "\n");
  view->codecs = make_text(print_json(filters::print_codecs(facts->filters)) + "\n");
  const bool is_swapped =
      facts->type.order == ByteOrder::big && !std::ranges::equal(facts->fill, facts->fill | std::views::reverse);
  view->shows_fill = shows_fill_of_big_endian_ && is_swapped;
  view->facts = std::move(facts);
  variables_.put_if(id, view, memory_estimate(*view->facts) + view->zarray->size() + view->codecs->size(),
                    [&] { return changes_ == changes; });
  return view;
}

VariablePtr Dataset::in_form(VariablePtr variable) const {
  const bool is_partly_named = variable->some_dimensions && !variable->dimensions;
  if (!shows_as_hdf5_ || (variable->chunk_keys == ChunkKeys() && !is_partly_named)) return variable;
  auto changed = std::make_shared<Variable>(*variable);
  changed->chunk_keys = ChunkKeys();
  changed->some_dimensions.reset();
  return changed;
}

Result<VariablePtr> Dataset::described(ObjectId id) {
  if (VariablePtr known = described_.get(id)) return known;
  const uint64_t changes = changes_;
  CODECFS_ASSIGN(VariablePtr variable, describe(*source_, id));
  variable = in_form(std::move(variable));
  const auto is_real = [&](const std::string& name) {
    return name.starts_with(kPhonyPrefix) && real_dimensions_.contains(name);
  };
  if (!real_dimensions_.empty() && std::ranges::any_of(phony_names(variable->attributes), is_real)) {
    auto unmarked = std::make_shared<Variable>(*variable);
    std::erase_if(unmarked->attributes, [](const Attribute& attribute) { return attribute.name == kPhonyDimensions; });
    variable = std::move(unmarked);
  }
  described_.put_if(id, variable, memory_estimate(*variable), [&] { return changes_ == changes; });
  return variable;
}

Text Dataset::zgroup() {
  static const Text text = make_text(file_text(zgroup_json()));
  return text;
}

Result<Text> Dataset::zattrs(ObjectId group, bool with_types) {
  CODECFS_ASSIGN(const std::vector<Attribute> attributes, source_->group_attributes(group));
  Json json = zattrs_json(std::span(attributes));
  CODECFS_ASSIGN(const auto members, source_->nczarr_members(group));
  if (with_types || members) {
    put_types(json, attributes);
    CODECFS_ASSIGN(const std::vector<GroupDimension> dimensions, source_->dimensions(group));
    put_dimensions(json, dimensions);
    if (members) put_members(json, *members, group == source_->root().object);
  }
  return make_text(file_text(json));
}

Result<Text> Dataset::zmetadata(ObjectId group) {
  if (Text known = consolidated_.get(group)) return known;
  const uint64_t changes = changes_;
  CODECFS_ASSIGN(const Text text,
                 consolidate(group, [](const std::string&, const Variable& facts) { return zarray_json(facts); }));
  consolidated_.put_if(group, text, text->size(), [&] { return changes_ == changes; });
  return text;
}

bool Dataset::is_as_readable(ObjectId part, ObjectId whole) const {
  if (!has_other_users_ || part == whole) return true;
  const Result<struct stat> one = source_->status_of(part);
  const Result<struct stat> other = source_->status_of(whole);
  if (!one || !other) return false;
  constexpr mode_t kReading = 0444;
  const mode_t missing = kReading & ~one->st_mode;
  // With another owner or group, a user belongs to another of the three classes.
  const bool is_same = one->st_uid == other->st_uid && one->st_gid == other->st_gid;
  return is_same ? (missing & other->st_mode) == 0 : missing == 0;
}

Result<Text> Dataset::consolidate(ObjectId group, const ZarrayOf& zarray_of) {
  const ConsolidatedForm form{
      [](const std::string& path, const Result<std::vector<Attribute>>& attributes) -> Members {
        return {{file_in(path, ".zgroup"), zgroup_json()},
                {file_in(path, ".zattrs"),
                 attributes ? zattrs_json(std::span(*attributes)) : unreadable_json(attributes.error())}};
      },
      [&](const std::string& path, const Variable& variable) -> Members {
        Json zattrs = zattrs_json(variable);
        if (variable.unreadable_attributes) zattrs.update(unreadable_json(*variable.unreadable_attributes));
        return {{file_in(path, ".zarray"), zarray_of(path, variable)}, {file_in(path, ".zattrs"), std::move(zattrs)}};
      }};
  const LockGuard lock(consolidating_);
  CODECFS_ASSIGN(const std::string members, Consolidation(*this, form, 8).run(group));
  return make_text("{\n    \"metadata\": {" + members + "\n    },\n    \"zarr_consolidated_format\": 1\n}\n");
}

Result<std::string> Dataset::consolidate3(ObjectId group, const ZarrJsonOf& zarr_json_of) {
  const ConsolidatedForm form{[](const std::string& path, const Result<std::vector<Attribute>>& attributes) -> Members {
                                if (path.empty()) return {};
                                return {{path, zarr3_group_json(attributes)}};
                              },
                              [&](const std::string& path, const Variable& variable) -> Members {
                                Result<Json> json = zarr_json_of(path, variable);
                                if (!json) return {};
                                return {{path, *std::move(json)}};
                              }};
  const LockGuard lock(consolidating_);
  return Consolidation(*this, form, kZarr3BelowIndent).run(group);
}

// Readers of the source put their results into these caches only if changes() has not changed during the read, and
// callers that cache data derived from these caches must do the same. changes_ is incremented both before and after the
// caches are cleared: a caller that reads it between may still find the old state, and must not keep what it derives
// from it.
void Dataset::forget(ObjectId object) {
  ++changes_;
  variables_.erase(object);
  described_.erase(object);
  consolidated_.clear();
  ++changes_;
}

void Dataset::forget_all() {
  ++changes_;
  variables_.clear();
  described_.clear();
  consolidated_.clear();
  ++changes_;
}

}  // namespace codecfs::fs
