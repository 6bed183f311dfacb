#include "fs/views/mount_rules.h"

#include <algorithm>
#include <utility>

#include "backends/api/names.h"
#include "base/closest_name.h"
#include "base/log.h"
#include "filters/core/codec_json.h"
#include "filters/core/filter_spec.h"
#include "filters/core/parameter_limits.h"
#include "filters/core/pipeline.h"
#include "filters/core/stock_filters.h"
#include "fs/views/encoded_forms.h"

namespace codecfs::fs {
namespace {

/// The name of a variable as its source has it, from the root: paths hold file names, which may be escaped.
std::string full_name(const std::string& path) {
  std::string name;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at + 1), path.size());
    const std::string part = path.substr(at + 1, end - at - 1);
    name += "/" + unescape_name(part).value_or(part);
    at = end;
  }
  return name.empty() ? "/" : name;
}

/// The member of the group that the name may stand for, as did_you_mean().
std::string hint_for(Source& source, const Entry& group, std::string_view name) {
  const Result<std::vector<Entry>> members = source.list(group.object);
  if (!members) return {};
  std::vector<std::string> names;
  for (const Entry& member : *members)
    names.push_back(group.kind == EntryKind::folder ? member.name : unescape_name(member.name).value_or(member.name));
  return did_you_mean(name, std::vector<std::string_view>(names.begin(), names.end()));
}

struct NoVariable {
  std::string reason;  // empty: it is one
  std::string hint;    // "; did you mean v?"
};

/// Sets the entry with a full name. Returns why it is not a variable.
NoVariable why_no_variable(Source& source, std::string_view name, Entry& entry) {
  constexpr const char* kNone = "there is no such variable";
  entry = source.root();
  for (name.remove_prefix(1); !name.empty(); name.remove_prefix(std::min(name.find('/'), name.size() - 1) + 1)) {
    const std::string_view part = name.substr(0, name.find('/'));
    if (entry.kind != EntryKind::group && entry.kind != EntryKind::folder) return {kNone, ""};
    // In a folder names are as they are.
    Result<Entry> found =
        source.find(entry.object, entry.kind == EntryKind::folder ? std::string(part) : escape_name(part));
    if (!found && found.error().code == ENOENT) return {kNone, hint_for(source, entry, part)};
    if (!found) return {found.error().reason, ""};
    entry = *std::move(found);
  }
  if (entry.kind == EntryKind::group) return {"this is a group, not a variable", ""};
  if (entry.kind == EntryKind::folder || entry.kind == EntryKind::file) return {"this is no dataset", ""};
  if (entry.kind == EntryKind::symlink) return {fmt::format("this is a link to {}; name that", entry.target), ""};
  return {};
}

/// EINVAL for a filter that no codec of Zarr corresponds to.
Result<> check_for_zarr(std::span<const FilterStage> chain) {
  for (const FilterStage& stage : chain)
    if (const filters::FilterPtr filter = filters::find_for(stage); filter && filter->codec.empty())
      return fail(EINVAL, "{}: has no codec in Zarr, which this source is", filter->name);
  return {};
}

Result<> check_for(std::span<const FilterStage> chain, const Variable& variable, bool in_zarr) {
  if (variable.grid.rank() == 0 || are_equal(chain, variable.filters)) return {};
  CODECFS_TRY(filters::check_new_chain(chain, variable.type.size, variable.filters));
  if (in_zarr) CODECFS_TRY(check_for_zarr(chain));
  if (std::ranges::any_of(chain, [](const FilterStage& stage) { return filters::only_in_libhdf5(stage.id); }))
    return {};
  CODECFS_TRY(filters::Pipeline::make(chain, filters::shape_of_stored_chunk(variable)));
  return {};
}

}  // namespace

std::optional<std::vector<FilterStage>> MountRules::pipeline_for(const std::string& path, const Variable& variable) {
  // As in nccopy, a scalar is left alone: it has no chunks to filter in HDF5.
  if (mount_.options.rules.empty() || variable.grid.rank() == 0) return std::nullopt;
  std::optional<std::vector<FilterStage>> chain = mount_.options.rules.resolve(full_name(path));
  const std::vector<FilterStage>& given = chain ? *chain : variable.filters;
  if (keep_to_stock(path) && !filters::are_stock(given)) chain = filters::stock_chain(given, variable.type.size);
  if (!chain) return std::nullopt;
  return arranged(*std::move(chain), variable, path);
}

/// Those of Zarr only on their way into HDF5.
bool MountRules::keep_to_stock(std::string_view path) {
  return mount_.options.rules.keeps_to_stock() && (mount_.options.for_hdf5 || !are_for_numcodecs(path));
}

std::vector<FilterStage> MountRules::arranged(std::vector<FilterStage> chain, const Variable& variable,
                                              std::string_view path) {
  chain = filters::arrange_chain(std::move(chain));
  if (are_for_numcodecs(path) && filters::shuffle_goes_first(chain, variable.type.size)) {
    std::swap(chain[0], chain[1]);
    std::call_once(told_placement_, [&] {
      log::info(
          "{}: shuffle is placed before fletcher32, as numcodecs cannot read the netCDF order with elements of {} "
          "bytes (so for all such variables of this mount)",
          path, variable.type.size);
    });
  }
  return chain;
}

std::optional<std::string> MountRules::spec_for(const Node& node, const Variable& variable) {
  const std::optional<std::vector<FilterStage>> chain = pipeline_for(node.path, variable);
  if (!chain) return std::nullopt;
  const Result<std::string> spec = filters::print_filter_spec(*chain);
  if (!spec) return std::nullopt;
  return spec->empty() ? "none" : *spec;
}

Result<> MountRules::check(Unknown unknown) {
  Source& source = mount_.dataset.source();
  if (source.chains_for_numcodecs_in(source.root().object))
    if (const Result<> checked = check_for_zarr(mount_.options.rules.stages()); !checked)
      return fail(EINVAL, "filter rules: {}", checked.error().reason);
  for (const std::string& name : mount_.options.rules.names()) {
    Entry entry;
    const NoVariable problem = why_no_variable(source, name, entry);
    if (!problem.reason.empty() && unknown == Unknown::is_refused)
      return fail(EINVAL, "filter rule {}: {}: {}{}", mount_.options.rules.texts_for(name), name, problem.reason,
                  problem.hint);
    if (!problem.reason.empty()) {
      log::warning("filter rule for {}: {}; the rule does nothing{}", name, problem.reason, problem.hint);
      continue;
    }
    const Result<VariablePtr> variable = mount_.dataset.described(entry.object);
    const std::optional<std::vector<FilterStage>> chain = mount_.options.rules.resolve(name);
    if (variable && (*variable)->grid.rank() == 0 && unknown == Unknown::is_refused)
      return fail(EINVAL, "filter rule {}: {}: a scalar has no chunks to filter", mount_.options.rules.texts_for(name),
                  name);
    if (!variable || !chain) continue;  // an access to a damaged variable gives its reason
    const Result<> checked = check_for(*chain, **variable, source.chains_for_numcodecs_in(entry.object));
    if (!checked)
      return fail(EINVAL, "filter rule {}: {}: {}", mount_.options.rules.texts_for(name), name, checked.error().reason);
  }
  return {};
}

bool MountRules::have_name_of(const std::string& path) const {
  const std::vector<std::string> names = mount_.options.rules.names();
  return std::ranges::find(names, full_name(path)) != names.end();
}

std::string MountRules::texts_for(const std::string& path) const {
  return mount_.options.rules.texts_for(full_name(path));
}

bool MountRules::are_for_numcodecs(std::string_view path) {
  while (true) {
    if (const Node* node = mount_.tree.nodes.find(std::string(path)))
      return mount_.dataset.source().chains_for_numcodecs_in(node->object);
    if (path.empty()) return false;
    path = path.substr(0, path.rfind('/'));
  }
}

}  // namespace codecfs::fs
