// The tree of an HDF5 file as directory entries. The header describes how the graph becomes a tree.

#include "backends/hdf5/metadata/object_tree.h"

#include <algorithm>
#include <utility>

#include "backends/api/external_link.h"
#include "backends/api/names.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/library/text.h"
#include "backends/hdf5/metadata/dimension_scales.h"
#include "base/log.h"

namespace codecfs::hdf5 {
namespace {

std::string file_name_of(std::string_view link_name) { return escape_name(netcdf_name(link_name)); }

}  // namespace

Result<ObjectTree> ObjectTree::make(hid_t file, std::string path, const struct stat& status,
                                    const AccessRecorder& recorder) {
  const Handle root(H5Gopen2(file, "/", H5P_DEFAULT));
  ObjectInfo info;
  if (!root || !object_info(root.get(), info)) return fail_library(EIO, "{}: its root group", path);
  ObjectTree tree;
  tree.file_ = file;
  tree.recorder_ = &recorder;
  tree.file_path_ = std::move(path);
  tree.status_ = status;
  tree.add({info.address, kRoot, "", true});
  return tree;
}

Result<ObjectTree> ObjectTree::below(hid_t file, uint64_t group, const AccessRecorder& recorder) {
  ObjectTree tree;
  tree.file_ = file;
  tree.recorder_ = &recorder;
  tree.add({group, kRoot, "", true});
  tree.places_.emplace();
  return tree;
}

void ObjectTree::keep_journal(std::unique_ptr<NodeJournal> journal) {
  for (auto& [number, node] : journal->read()) {
    if (number >= nodes_.size()) nodes_.resize(number + 1, TreeNode{0, 0, "", false, true});
    if (!nodes_[number].gone) numbers_.erase(nodes_[number].address);
    nodes_[number] = std::move(node);
    if (!nodes_[number].gone) numbers_[nodes_[number].address] = number;
  }
  journal_ = std::move(journal);
  member_counts_.assign(nodes_.size(), 0);
  for (ObjectId id = 1; id < nodes_.size(); ++id)
    if (!nodes_[id].gone && nodes_[id].parent < nodes_.size()) ++member_counts_[nodes_[id].parent];
}

ObjectId ObjectTree::add(TreeNode node) {
  const ObjectId number = nodes_.size();
  numbers_.emplace(node.address, number);
  member_counts_.push_back(0);
  if (number != kRoot) ++member_counts_[node.parent];
  nodes_.push_back(std::move(node));
  return number;
}

void ObjectTree::note(ObjectId object) const {
  if (journal_) journal_->note(object, nodes_[object]);
}

void ObjectTree::write_journal() const {
  if (journal_) journal_->write();
}

bool ObjectTree::is_netcdf() const {
  const auto root = open(kRoot);
  if (!root) return false;
  // Attributes of a newer version of HDF5 at the root are no reason to show nothing of the file.
  if (recorder_->attributes(address(kRoot)) &&
      (H5Aexists(root->get(), "_NCProperties") > 0 || H5Aexists(root->get(), "_nc3_strict") > 0))
    return true;
  if (!recorder_->object(address(kRoot))) return false;
  struct Search {
    const AccessRecorder& recorder;
    int left = 16;
    bool found = false;
    static herr_t visit(hid_t group, const char* name, const RawLinkInfo* info, void* data) {
      auto& search = *static_cast<Search*>(data);
      search.found = info->type == H5L_TYPE_HARD && search.recorder.attributes(link_info(group, *info).address) &&
                     H5Aexists_by_name(group, name, "_Netcdf4Dimid", H5P_DEFAULT) > 0;
      return search.found || --search.left == 0 ? 1 : 0;
    }
  } search{*recorder_};
  // The first links in native order: sorting would make libhdf5 read all of them.
  iterate_links(root->get(), H5_INDEX_NAME, H5_ITER_NATIVE, Search::visit, &search);
  return search.found;
}

Result<Handle> ObjectTree::open(ObjectId object) const {
  if (object >= nodes_.size()) return fail(ENOENT, "no object has the number {}", object);
  if (nodes_[object].gone) return fail(ENOENT, "{} no longer exists", path(object));
  if (const Result<> allowed = recorder_->object(nodes_[object].address); !allowed)
    return fail(allowed.error().code, "{}: {}", path(object), allowed.error().reason);
  Handle handle(open_object(file_, nodes_[object].address));
  if (!handle) {
    if (const Result<> known = recorder_->check_version(nodes_[object].address); !known)
      return fail(known.error().code, "{}: {}", path(object), known.error().reason);
    return fail_library(EIO, "{} cannot be opened", path(object));
  }
  const H5I_type_t kind = H5Iget_type(handle.get());
  if (kind != (nodes_[object].group ? H5I_GROUP : H5I_DATASET))
    return fail(EIO, "{} is not the kind of object that it was", path(object));
  return handle;
}

Result<Handle> ObjectTree::open_group(ObjectId group) const {
  if (group < nodes_.size() && !nodes_[group].group) return fail(ENOTDIR, "{} is not a group", path(group));
  return open(group);
}

Result<Handle> ObjectTree::open_with_path(ObjectId group) const {
  CODECFS_ASSIGN(const Handle by_address, open_group(group));
  std::string path;
  for (const std::string* const name : names_to(group)) path += "/" + *name;
  Handle handle(H5Gopen2(file_, path.empty() ? "/" : path.c_str(), H5P_DEFAULT));
  ObjectInfo info;
  if (!handle || !object_info(handle.get(), info)) return fail_library(EIO, "{} cannot be opened", this->path(group));
  if (info.address != nodes_[group].address) return fail(EIO, "{} is not where it was", this->path(group));
  return handle;
}

std::string ObjectTree::path(ObjectId object) const {
  std::string path;
  for (const std::string* const name : names_to(object)) path += "/" + as_utf8(*name);
  return path.empty() ? "/" : path;
}

// The names of the links from the root to an object.
std::vector<const std::string*> ObjectTree::names_to(ObjectId object) const {
  std::vector<const std::string*> names;
  for (; object != kRoot; object = nodes_[object].parent) names.push_back(&nodes_[object].name);
  std::ranges::reverse(names);
  return names;
}

Result<> ObjectTree::for_each(ObjectId group, const std::function<void(const Link&, Result<Entry>)>& visit) {
  CODECFS_ASSIGN(const Handle handle, open_group(group));
  CODECFS_ASSIGN(const std::vector<Link> links, links_of(handle.get()));
  for (const Link& link : links) {
    (void)recorder_->object(nodes_[group].address);
    auto entry = entry_of(group, handle.get(), link);
    if (!entry)
      visit(link, std::unexpected(entry.error()));
    else if (*entry)
      visit(link, std::move(**entry));
  }
  return {};
}

Result<std::vector<Entry>> ObjectTree::list(ObjectId group) {
  std::vector<Entry> entries;
  CODECFS_TRY(for_each(group, [&](const Link& link, Result<Entry> entry) {
    if (entry)
      entries.push_back(*std::move(entry));
    else
      log::warning("{}: \"{}\" is left out: {}", path(group), as_utf8(link.name), entry.error().reason);
  }));
  return entries;
}

Result<std::vector<UnreadableMember>> ObjectTree::unreadable_members(ObjectId group) {
  std::vector<UnreadableMember> members;
  CODECFS_TRY(for_each(group, [&](const Link& link, const Result<Entry>& entry) {
    if (!entry) members.push_back({escape_name(netcdf_name(link.name)), entry.error()});
  }));
  return members;
}

Result<Members> ObjectTree::overview(ObjectId group, const OutlineOf& outline_of) {
  struct Use {
    ObjectTree& tree;
    ~Use() { tree.outline_of_ = nullptr; }
  } const use{*this};
  outline_of_ = outline_of;
  Members members;
  CODECFS_TRY(for_each(group, [&](const Link& link, Result<Entry> entry) {
    if (entry) {
      members.entries.push_back(*std::move(entry));
      return;
    }
    log::warning("{}: \"{}\" is left out: {}", path(group), as_utf8(link.name), entry.error().reason);
    members.unreadable.push_back({escape_name(netcdf_name(link.name)), std::move(entry.error())});
  }));
  return members;
}

Result<Entry> ObjectTree::find(ObjectId group, std::string_view file_name) {
  CODECFS_ASSIGN(Member found, member(group, file_name));
  return std::move(found.entry);
}

Result<ObjectTree::Member> ObjectTree::member(ObjectId group, std::string_view file_name) {
  CODECFS_ASSIGN(const Handle handle, open_group(group));
  const auto try_link = [&](const Link& link) -> Result<std::optional<Entry>> {
    if (shown_name(handle.get(), link.name) != file_name) return std::optional<Entry>();
    return entry_of(group, handle.get(), link);
  };
  if (is_cut_name(file_name)) {
    CODECFS_ASSIGN(const std::vector<Link> links, links_of(handle.get()));
    for (const Link& link : links) {
      if (file_name_of(link.name) != file_name && escape_name(link.name) != file_name) continue;
      CODECFS_ASSIGN(auto entry, try_link(link));
      if (entry) return Member{link, std::move(*entry)};
    }
  } else if (const auto name = unescape_name(file_name); name && is_link_name(*name)) {
    for (const std::string& candidate : {*name, std::string(kNonCoordinate) + *name}) {
      Link link{candidate, {}};
      if (H5Lexists(handle.get(), candidate.c_str(), H5P_DEFAULT) <= 0) continue;
      if (!link_info(handle.get(), candidate.c_str(), link.info)) return fail_library(EIO, "link \"{}\"", candidate);
      CODECFS_ASSIGN(auto entry, try_link(link));
      if (entry) return Member{std::move(link), std::move(*entry)};
    }
  }
  return fail(ENOENT, "{} has no member \"{}\"", path(group), file_name);
}

Result<std::string> ObjectTree::new_link_name(ObjectId group, std::string_view file_name) {
  CODECFS_ASSIGN(const Handle handle, open_group(group));
  const auto name = unescape_name(file_name);
  if (!name || !is_link_name(*name)) return fail(EINVAL, "\"{}\" cannot be the name of an HDF5 object", file_name);
  if (netcdf_name(*name).size() != name->size())
    return fail(EINVAL, "\"{}\": netCDF gives names that begin with {} a meaning of its own", file_name,
                kNonCoordinate);
  const auto exists = [&](const std::string& link) { return H5Lexists(handle.get(), link.c_str(), H5P_DEFAULT) > 0; };
  std::string prefixed = std::string(kNonCoordinate) + *name;
  const bool hidden = exists(*name) && is_hidden(handle.get(), *name);
  if ((exists(*name) && !hidden) || exists(prefixed)) return fail(EEXIST, "{} has a member \"{}\"", path(group), *name);
  return hidden ? std::move(prefixed) : *name;
}

Result<> ObjectTree::check_empty(ObjectId group) {
  CODECFS_ASSIGN(const Handle handle, open_group(group));
  CODECFS_ASSIGN(const std::vector<Link> links, links_of(handle.get()));
  for (const Link& link : links) {
    auto entry = entry_of(group, handle.get(), link);
    if (!entry)
      return fail(EIO, "{}: its member \"{}\" cannot be read: {}", path(group), as_utf8(link.name),
                  entry.error().reason);
    if (*entry) return fail(ENOTEMPTY, "{} has a member \"{}\"", path(group), (*entry)->name);
  }
  return {};
}

bool ObjectTree::is_hidden(hid_t group, const std::string& link_name) const {
  LinkInfo info;
  if (!link_info(group, link_name.c_str(), info) || info.type != H5L_TYPE_HARD) return false;
  if (!recorder_->object(info.address)) return false;
  const Handle object(open_object(file_, info.address));
  return object && H5Iget_type(object.get()) == H5I_DATASET && recorder_->attributes(info.address) &&
         is_dimension_without_variable(object.get());
}

// The name without netCDF's prefix, unless another member has that name.
std::string ObjectTree::shown_name(hid_t group, const std::string& link_name) const {
  const std::string_view name = netcdf_name(link_name);
  if (name.size() == link_name.size() || !is_link_name(name)) return escape_name(link_name);
  const std::string plain(name);
  if (H5Lexists(group, plain.c_str(), H5P_DEFAULT) > 0 && !is_hidden(group, plain)) return escape_name(link_name);
  return escape_name(plain);
}

// None for objects that are not shown: committed datatypes, netCDF's dimensions without a variable.
Result<std::optional<Entry>> ObjectTree::entry_of(ObjectId group, hid_t handle, const Link& link) {
  Entry entry;
  entry.name = shown_name(handle, link.name);
  entry.kind = EntryKind::symlink;
  switch (link.info.type) {
    case H5L_TYPE_HARD: return hard_link(group, handle, link, std::move(entry));
    case H5L_TYPE_SOFT: {
      CODECFS_ASSIGN(entry.target, soft_target(group, handle, link));
      return entry;
    }
    case H5L_TYPE_EXTERNAL: {
      CODECFS_ASSIGN(entry.target, external_target(group, handle, link));
      return entry;
    }
    default: entry.target = fmt::format("user-defined-link:{}", static_cast<int>(link.info.type)); return entry;
  }
}

// None where libhdf5 must be asked. In a damaged group, a name that is listed need not be found, or leads elsewhere.
std::optional<ObjectTree::Outline> ObjectTree::outline_of(hid_t group, const Link& link) const {
  LinkInfo named;
  if (!outline_of_ || !link_info(group, link.name.c_str(), named) || named.type != H5L_TYPE_HARD ||
      named.address != link.info.address)
    return std::nullopt;
  return outline_of_(link.info.address);
}

Result<std::optional<Entry>> ObjectTree::hard_link(ObjectId group, hid_t handle, const Link& link, Entry entry) {
  // What a newer HDF5 wrote is listed: only its parts cannot be read.
  const Result<> readable = recorder_->object(link.info.address);
  if (!readable && readable.error().code != kNewerFormat) return std::unexpected(readable.error());
  ObjectInfo info;
  const std::optional<Outline> outline = outline_of(handle, link);
  if (outline)
    info = outline->info;
  else if (!object_info_by_name(handle, link.name.c_str(), info))
    return fail_library(EIO, "the object cannot be read");
  if (info.type != H5O_TYPE_GROUP && info.type != H5O_TYPE_DATASET) return std::optional<Entry>();
  // Whether it has the attribute is found out without opening it, which takes as long as all else here.
  if (readable && info.type == H5O_TYPE_DATASET && info.attributes > 0 && recorder_->attributes(info.address) &&
      (outline ? outline->has_name : H5Aexists_by_name(handle, link.name.c_str(), "NAME", H5P_DEFAULT) > 0)) {
    (void)recorder_->object(info.address);
    const Handle dataset(open_object(file_, info.address));
    if (dataset && recorder_->attributes(info.address) && is_dimension_without_variable(dataset.get()))
      return std::optional<Entry>();
  }

  const auto known = numbers_.find(info.address);
  const bool elsewhere = known != numbers_.end() && (known->second == kRoot || nodes_[known->second].parent != group ||
                                                     nodes_[known->second].name != link.name);
  if (info.references > 1 || elsewhere) {
    if (!places_) find_places();
    const auto place = places_->find(info.address);
    const bool here = place != places_->end() && info.address != nodes_[kRoot].address &&
                      place->second.parent == nodes_[group].address && place->second.name == link.name;
    if (!here) {
      // If the object's link count is wrong, the walk has no path for it: use the path at which it was found first.
      const auto other = place == places_->end() && elsewhere ? path(known->second) : place_path(info.address);
      if (other) {
        entry.target = relative_target(group, *other);
        return entry;
      }
    }
  }
  entry.kind = info.type == H5O_TYPE_GROUP ? EntryKind::group : EntryKind::variable;
  if (known != numbers_.end()) {
    entry.object = known->second;
  } else {
    entry.object = add({info.address, group, link.name, info.type == H5O_TYPE_GROUP});
    note(entry.object);
  }
  return entry;
}

Result<std::string> ObjectTree::soft_target(ObjectId group, hid_t handle, const Link& link) const {
  CODECFS_ASSIGN(std::string value, link_value(handle, link));
  value.resize(std::min(value.find('\0'), value.size()));
  if (value.starts_with('/')) return relative_target(group, value);
  std::string target;
  for (const std::string_view component : components_of(value)) {
    if (!target.empty()) target += '/';
    target += file_name_of(component);
  }
  return target.empty() ? "." : target;
}

Result<std::string> ObjectTree::external_target(ObjectId group, hid_t handle, const Link& link) const {
  CODECFS_ASSIGN(const std::string value, link_value(handle, link));
  unsigned flags = 0;
  const char* file_name = nullptr;
  const char* object = nullptr;
  if (H5Lunpack_elink_val(value.data(), value.size(), &flags, &file_name, &object) < 0)
    return fail_library(EIO, "external link \"{}\"", link.name);
  if (is_this_file(file_name)) return relative_target(group, object);
  return fmt::format("{}{}:{}", kExternalLink, file_name, object);
}

bool ObjectTree::is_this_file(std::string_view file_name) const {
  std::string path(file_name);
  if (!path.starts_with('/')) path = file_path_.substr(0, file_path_.rfind('/') + 1) + path;
  struct stat status{};
  return stat(path.c_str(), &status) == 0 && status.st_dev == status_.st_dev && status.st_ino == status_.st_ino;
}

// The path relative to a group's directory of an absolute path in the file.
std::string ObjectTree::relative_target(ObjectId group, std::string_view path) const {
  std::vector<std::string_view> here;
  for (ObjectId at = group; at != kRoot; at = nodes_[at].parent) here.push_back(nodes_[at].name);
  std::ranges::reverse(here);
  const std::vector<std::string_view> there = components_of(path);
  const auto common = static_cast<size_t>(std::ranges::mismatch(here, there).in1 - here.begin());
  std::string target;
  for (size_t i = common; i < here.size(); ++i) target += "../";
  for (size_t i = common; i < there.size(); ++i) target += file_name_of(there[i]) + "/";
  if (target.empty()) return ".";
  target.pop_back();
  return target;
}

std::optional<ObjectId> ObjectTree::number_of(uint64_t address) const {
  const auto known = numbers_.find(address);
  return known == numbers_.end() ? std::nullopt : std::optional(known->second);
}

bool ObjectTree::is_within(ObjectId object, ObjectId group) const {
  while (object != group && object != kRoot) object = nodes_[object].parent;
  return object == group;
}

std::vector<ObjectId> ObjectTree::subtree(ObjectId object) const {
  std::vector<ObjectId> found;
  if (member_counts_[object] == 0)  // all others need not be looked at
    return nodes_[object].gone ? found : std::vector<ObjectId>{object};
  for (ObjectId id = 0; id < nodes_.size(); ++id)
    if (!nodes_[id].gone && is_within(id, object)) found.push_back(id);
  return found;
}

void ObjectTree::removed(ObjectId object) {
  for (const ObjectId id : subtree(object)) {
    nodes_[id].gone = true;
    if (id != kRoot) --member_counts_[nodes_[id].parent];
    numbers_.erase(nodes_[id].address);
    note(id);
  }
}

void ObjectTree::moved(ObjectId object, ObjectId group, std::string link_name) {
  if (object != kRoot && !nodes_[object].gone) {
    --member_counts_[nodes_[object].parent];
    ++member_counts_[group];
  }
  nodes_[object].parent = group;
  nodes_[object].name = std::move(link_name);
  note(object);
}

}  // namespace codecfs::hdf5
