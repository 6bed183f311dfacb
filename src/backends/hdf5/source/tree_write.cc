// Groups and links: creation, removal and moves. Variables: variable_write.cc.

#include "backends/hdf5/source/tree_write.h"

#include <algorithm>
#include <deque>
#include <unordered_set>

#include "backends/api/names.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/library/text.h"
#include "base/utf8.h"

namespace codecfs::hdf5 {
namespace {

herr_t refuse_external(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) { return -1; }

}  // namespace

Handle link_properties(std::string_view name) {
  Handle properties(H5Pcreate(H5P_LINK_CREATE));
  const auto ascii = [](char c) { return static_cast<unsigned char>(c) < 128; };
  if (is_utf8(name) && !std::ranges::all_of(name, ascii)) H5Pset_char_encoding(properties.get(), H5T_CSET_UTF8);
  return properties;
}

// With creation order, as netCDF requires.
Result<Entry> TreeWriter::make_group(ObjectId group, std::string_view name) {
  CODECFS_ASSIGN(const Handle parent, tree_.open_group(group));
  CODECFS_ASSIGN(const std::string link, tree_.new_link_name(group, name));
  CODECFS_TRY(file_.allow_change(0));
  constexpr unsigned kOrdered = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;
  const Handle properties(H5Pcreate(H5P_GROUP_CREATE));
  H5Pset_link_creation_order(properties.get(), kOrdered);
  H5Pset_attr_creation_order(properties.get(), kOrdered);
  H5Pset_obj_track_times(properties.get(), false);
  const Handle made(H5Gcreate2(parent.get(), link.c_str(), link_properties(link).get(), properties.get(), H5P_DEFAULT));
  if (!made) return done(Result<Entry>(fail_library(EIO, "{}: making the group \"{}\"", tree_.path(group), link)));
  dimensions_.forget_numbering();
  return tree_.find(group, name);
}

Result<std::string> TreeWriter::link_target(ObjectId group, std::string_view target) const {
  const auto refuse = [&](std::string_view why) { return fail(EINVAL, "a link to \"{}\": {}", target, why); };
  const std::vector<std::string_view> shown = components_of(target);
  const bool relative = !target.starts_with('/');
  const bool upwards = std::ranges::find(shown, "..") != shown.end();
  std::vector<std::string> names;
  if (relative && upwards) {
    for (ObjectId at = group; at != ObjectTree::kRoot; at = tree_.parent(at)) names.push_back(tree_.link_name(at));
    std::ranges::reverse(names);
  }
  for (const std::string_view component : shown) {
    if (component == "..") {
      if (names.empty()) return refuse("its target is outside of the file");
      names.pop_back();
      continue;
    }
    auto name = unescape_name(component);
    if (!name || !is_link_name(*name)) return refuse("HDF5 cannot hold its name");
    names.push_back(std::move(*name));
  }
  std::string path = relative && !upwards ? "" : "/";
  for (const std::string& name : names) path += (path.empty() || path.ends_with('/') ? "" : "/") + name;
  if (path.empty()) return target.empty() ? Result<std::string>(refuse("it is empty")) : Result<std::string>(".");
  return path;
}

// netCDF-C follows links when it opens a file: a dangling one is an error, and one to a parent group an endless loop.
Result<> TreeWriter::check_netcdf_link(ObjectId group, std::string_view target, const std::string& path) const {
  const Handle access(H5Pcreate(H5P_LINK_ACCESS));
  H5Pset_elink_cb(access.get(), refuse_external, nullptr);  // do not follow external links
  CODECFS_ASSIGN(const Handle handle, tree_.open_group(group));
  ObjectInfo info;
  if (!object_info_by_name(handle.get(), path.c_str(), info, access.get()))
    return fail(EOPNOTSUPP, "a link to \"{}\", which does not exist: netCDF could no longer open the file", target);
  for (ObjectId at = group;; at = tree_.parent(at)) {
    if (info.address == tree_.address(at))
      return fail(EOPNOTSUPP, "a link to \"{}\", a group above it: netCDF could no longer open the file", target);
    if (at == ObjectTree::kRoot) return {};
  }
}

Result<> TreeWriter::define_dimensions(ObjectId group, std::span<const GroupDimension> dimensions) {
  CODECFS_ASSIGN(const std::vector<GroupDimension> missing, scales_.missing(group, dimensions));
  if (missing.empty()) return {};
  CODECFS_TRY(file_.allow_change(0));
  return done(scales_.define(group, missing), false);
}

Result<Entry> TreeWriter::make_link(ObjectId group, std::string_view name, std::string_view target) {
  CODECFS_ASSIGN(const Handle parent, tree_.open_group(group));
  CODECFS_ASSIGN(const std::string link, tree_.new_link_name(group, name));
  CODECFS_ASSIGN(const std::string path, link_target(group, target));
  if (netcdf_) CODECFS_TRY(check_netcdf_link(group, target, path));
  CODECFS_TRY(file_.allow_change(path.size()));
  if (H5Lcreate_soft(path.c_str(), parent.get(), link.c_str(), link_properties(link).get(), H5P_DEFAULT) < 0)
    return done(Result<Entry>(fail_library(EIO, "{}: making the link \"{}\"", tree_.path(group), link)));
  dimensions_.forget();
  return tree_.find(group, name);
}

// Hidden members are removed with a group, unless another dataset uses one as a dimension.
Result<> TreeWriter::check_group_removal(ObjectId group) {
  CODECFS_TRY(tree_.check_empty(group));
  CODECFS_ASSIGN(const Handle handle, tree_.open_group(group));
  CODECFS_ASSIGN(const std::vector<Link> links, links_of(handle.get()));
  for (const Link& link : links) {
    const Handle hidden(open_object(file_.file.get(), link.info.address));
    if (hidden && H5Iget_type(hidden.get()) == H5I_DATASET && scales_.is_used(hidden.get()))
      return fail(ENOTEMPTY, "{}: variables elsewhere use its dimension \"{}\"", tree_.path(group), as_utf8(link.name));
  }
  return {};
}

Result<> TreeWriter::remove(ObjectId group, std::string_view name) {
  CODECFS_ASSIGN(const Handle parent, tree_.open_with_path(group));
  CODECFS_ASSIGN(const ObjectTree::Member member, tree_.member(group, name));
  if (member.entry.kind == EntryKind::group) CODECFS_TRY(check_group_removal(member.entry.object));
  CODECFS_TRY(file_.allow_change(0));
  return done(carry_out_removal(parent.get(), group, member), false);
}

Result<> TreeWriter::carry_out_removal(hid_t group, ObjectId parent, const ObjectTree::Member& member) {
  std::string link = member.link.name;
  const bool here = member.entry.kind != EntryKind::symlink;
  uint64_t references = 0;
  if (here) {
    const Handle object(open_object(file_.file.get(), member.link.info.address));
    ObjectInfo info;
    if (!object || !object_info(object.get(), info)) return fail_library(EIO, "the object \"{}\"", as_utf8(link));
    references = info.references;
    if (member.entry.kind == EntryKind::variable && references == 1) {
      CODECFS_ASSIGN(link, scales_.prepare_removal(group, std::move(link), object.get()));
      ++file_.generation_of(info.address);
      file_.written_masks.erase(info.address);
      dimensions_.use_stored_shape(info.address);
    }
  }
  if (H5Ldelete(group, link.c_str(), H5P_DEFAULT) < 0) return fail_library(EIO, "removing \"{}\"", as_utf8(link));
  // A group with another hard link moves to that link's path, with all its members.
  const bool stays = member.entry.kind == EntryKind::group && references > 1;
  if (!here || references > 1)
    dimensions_.forget();  // another link may lead to the object
  else
    dimensions_.note_removal(parent, member.link.info.address, member.entry.object);
  if (here && !stays) tree_.removed(member.entry.object);
  tree_.links_changed();
  return {};
}

// netCDF searches a dimension in a variable's group and its parents only.
Result<> TreeWriter::check_move(const ObjectTree::Member& member, ObjectId to) const {
  const hid_t file = file_.file.get();
  std::unordered_set<uint64_t> seen{member.link.info.address};
  std::vector<uint64_t> datasets;
  for (std::deque<uint64_t> groups{member.link.info.address}; !groups.empty(); groups.pop_front()) {
    const Handle group(open_object(file, groups.front()));
    if (!group) return fail_library(EIO, "a group below \"{}\"", member.entry.name);
    CODECFS_ASSIGN(const std::vector<Link> links, links_of(group.get()));
    for (const Link& link : links) {
      if (link.info.type != H5L_TYPE_HARD || !seen.insert(link.info.address).second) continue;
      ObjectInfo info;
      if (!object_info_by_name(group.get(), link.name.c_str(), info)) continue;
      if (info.type == H5O_TYPE_GROUP) groups.push_back(info.address);
      if (info.type == H5O_TYPE_DATASET) datasets.push_back(info.address);
    }
  }
  std::unordered_set<uint64_t> visible = seen;
  for (ObjectId at = to;; at = tree_.parent(at)) {
    CODECFS_ASSIGN(const Handle group, tree_.open_group(at));
    CODECFS_ASSIGN(const std::vector<Link> links, links_of(group.get()));
    for (const Link& link : links) visible.insert(link.info.address);
    if (at == ObjectTree::kRoot) break;
  }
  for (const uint64_t address : datasets) {
    const Handle dataset(open_object(file, address));
    if (!dataset) continue;
    CODECFS_ASSIGN(const std::vector<Extent> extents, extents_of(dataset.get()));
    for (const std::vector<uint64_t>& scales : attached_scales(dataset.get(), extents.size()))
      if (std::ranges::any_of(scales, [&](uint64_t scale) { return !visible.contains(scale); }))
        return fail(EOPNOTSUPP, "\"{}\" has variables whose dimensions are in a group that is not above {}",
                    member.entry.name, tree_.path(to));
    for (const uint64_t user : scales_.users(dataset.get()))
      if (!seen.contains(user))
        return fail(EOPNOTSUPP, "\"{}\" has dimensions of variables in other groups", member.entry.name);
  }
  return {};
}

Result<> TreeWriter::rename(ObjectId from, std::string_view name, ObjectId to, std::string_view new_name,
                            const Dataset* dataset) {
  CODECFS_ASSIGN(const ObjectTree::Member member, tree_.member(from, name));
  if (from == to && name == new_name) return {};
  CODECFS_TRY(tree_.open_with_path(to));
  if (member.entry.kind == EntryKind::group && tree_.is_within(to, member.entry.object))
    return fail(EINVAL, "\"{}\" cannot be moved into itself", name);
  CODECFS_ASSIGN(const std::string link, tree_.new_link_name(to, new_name));
  if (member.entry.kind == EntryKind::group && from != to) CODECFS_TRY(check_move(member, to));

  std::optional<DimensionWriter::Plan> plan;
  if (dataset != nullptr) {
    if (is_dimension_scale(dataset->id()) && netcdf_name(link).size() != link.size())
      return fail(EEXIST, "{} has a dimension \"{}\"", tree_.path(to), new_name);
    if (from != to && scales_.is_used(dataset->id()))
      return fail(EOPNOTSUPP, "\"{}\" is the dimension of other variables, which find it only where it is", name);
    if (from != to && !attached_scales(dataset->id(), dataset->rank()).empty()) {
      CODECFS_ASSIGN(const std::vector<Extent> extents, extents_of(dataset->id()));
      CODECFS_ASSIGN(const auto names, dimensions_.names(member.entry.object, dataset->named()));
      const OptionalNames named(names.shown.begin(), names.shown.end());
      CODECFS_ASSIGN(plan, scales_.plan(to, netcdf_name(link), extents, std::span(named).first(extents.size())));
    }
  }
  CODECFS_TRY(file_.allow_change(0));
  return done(carry_out_move(from, member, to, link, plan));
}

Result<> TreeWriter::carry_out_move(ObjectId from, const ObjectTree::Member& member, ObjectId to,
                                    const std::string& link, const std::optional<DimensionWriter::Plan>& plan) {
  CODECFS_ASSIGN(const Handle source, tree_.open_with_path(from));
  CODECFS_ASSIGN(const Handle target, tree_.open_with_path(to));
  if (H5Lmove(source.get(), member.link.name.c_str(), target.get(), link.c_str(), link_properties(link).get(),
              H5P_DEFAULT) < 0)
    return fail_library(EIO, "moving \"{}\"", member.entry.name);
  if (member.entry.kind != EntryKind::symlink) tree_.moved(member.entry.object, to, link);
  if (member.entry.kind == EntryKind::variable) {
    const Handle dataset(open_object(file_.file.get(), member.link.info.address));
    CODECFS_TRY(DimensionWriter::update_name(dataset.get(), netcdf_name(member.link.name), netcdf_name(link)));
    if (plan) {
      CODECFS_ASSIGN(std::string at, scales_.apply(*plan, dataset.get(), link));
      tree_.moved(member.entry.object, to, std::move(at));
    }
  }
  tree_.links_changed();
  return {};
}

}  // namespace codecfs::hdf5
