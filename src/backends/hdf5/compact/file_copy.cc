// Copies breadth first. An object is created, unlinked, when the first link to it is found or it is the type of another
// object, and gets its links afterwards; so the walk never follows a path and terminates on cycles. Values with
// references are copied last, when all objects exist. Only fill values cannot wait: what they refer to is created
// before the link to it is found.

#include "backends/hdf5/compact/file_copy.h"

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backends/hdf5/compact/dataset_copy.h"
#include "backends/hdf5/compact/fill_references.h"
#include "backends/hdf5/compact/linked_objects.h"
#include "backends/hdf5/compact/placeholder_filters.h"
#include "backends/hdf5/compact/reference_map.h"
#include "backends/hdf5/compact/stored_values.h"
#include "backends/hdf5/format/object_walk.h"
#include "backends/hdf5/library/filter_registration.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/library/text.h"
#include "backends/hdf5/metadata/attribute_values.h"

namespace codecfs::hdf5 {
namespace {

/// Prefixes the path to an error.
template <class T>
std::unexpected<Error> about(const std::string& what, Result<T>& result) {
  return fail(result.error().code, "{}: {}", what, result.error().reason);
}
#define CODECFS_TRY_ABOUT(what, expression)                \
  do {                                                     \
    auto about_result_ = (expression);                     \
    if (!about_result_) return about(what, about_result_); \
  } while (false)

/// Copies settings to the creation properties of a new group. The properties that libhdf5 returns for an existing group
/// also contain the addresses of its links, which are invalid in the other file.
bool copy_settings(hid_t from, hid_t to) {
  unsigned order = 0;
  unsigned most_compact = 0;
  unsigned least_dense = 0;
  unsigned links = 0;
  unsigned name_length = 0;
  size_t heap_size = 0;
  hbool_t times = true;
  return H5Pget_link_creation_order(from, &order) >= 0 && H5Pset_link_creation_order(to, order) >= 0 &&
         H5Pget_attr_creation_order(from, &order) >= 0 && H5Pset_attr_creation_order(to, order) >= 0 &&
         H5Pget_link_phase_change(from, &most_compact, &least_dense) >= 0 &&
         H5Pset_link_phase_change(to, most_compact, least_dense) >= 0 &&
         H5Pget_attr_phase_change(from, &most_compact, &least_dense) >= 0 &&
         H5Pset_attr_phase_change(to, most_compact, least_dense) >= 0 &&
         H5Pget_est_link_info(from, &links, &name_length) >= 0 && H5Pset_est_link_info(to, links, name_length) >= 0 &&
         H5Pget_local_heap_size_hint(from, &heap_size) >= 0 && H5Pset_local_heap_size_hint(to, heap_size) >= 0 &&
         H5Pget_obj_track_times(from, &times) >= 0 && H5Pset_obj_track_times(to, times) >= 0;
}

Result<> copy_group_properties(hid_t group, hid_t to) {
  CODECFS_ASSIGN(const Handle from, creation_properties_of(group));
  if (!copy_settings(from.get(), to)) return fail_library(EIO, "the properties of a group");
  CODECFS_ASSIGN(const std::vector<FilterStage> chain, stored_chain(from.get()));
  return add_filters(to, chain);
}

class FileCopy {
 public:
  FileCopy(hid_t from, hid_t to, uint64_t file_bytes)
      : from_(from), to_(to), file_bytes_(file_bytes), references_(from, to) {}

  Result<> copy() {
    CODECFS_TRY(begin_with_root());
    while (!found_.empty()) {
      const Copied object = std::move(found_.front());
      found_.pop_front();
      CODECFS_TRY_ABOUT(object.path, copy_contents(object));
    }
    if (!early_.empty()) return fail(EIO, "the link to the target of a fill value was not found");
    for (const LateAttribute& late : late_attributes_)
      CODECFS_TRY_ABOUT(fmt::format("{}, attribute {}", late.object.path, as_utf8(late.name)), copy_late(late));
    for (const Copied& late : late_data_) CODECFS_TRY_ABOUT(late.path, copy_late_data(late));
    return {};
  }

 private:
  /// The addresses of an object and its copy.
  struct Copied {
    uint64_t from = 0;
    uint64_t to = 0;
    std::string path;  // for messages
  };
  struct LateAttribute {
    Copied object;
    std::string name;
  };
  struct Opened {
    Handle from;
    Handle to;
  };

  Result<> begin_with_root() {
    const Handle from(H5Gopen2(from_, "/", H5P_DEFAULT));
    const Handle to(H5Gopen2(to_, "/", H5P_DEFAULT));
    if (!from || !to) return fail_library(EIO, "the root group");
    return remember(from, to, "/");
  }

  Result<> remember(const Handle& from, const Handle& to, const std::string& path) {
    ObjectInfo old_info;
    ObjectInfo new_info;
    if (!object_info(from.get(), old_info) || !object_info(to.get(), new_info))
      return fail_library(EIO, "its place in the file");
    references_.add(old_info.address, new_info.address);
    found_.push_back({old_info.address, new_info.address, path});
    return {};
  }

  Result<Opened> open(const Copied& object) const {
    Opened opened{Handle(open_object(from_, object.from)), Handle(open_object(to_, object.to))};
    if (!opened.from || !opened.to) return fail_library(EIO, "it cannot be opened");
    return opened;
  }

  Result<> copy_contents(const Copied& object) {
    CODECFS_ASSIGN(const Opened opened, open(object));
    CODECFS_ASSIGN(const std::vector<std::string> names, attribute_names(opened.from.get()));
    for (const std::string& name : names)
      CODECFS_TRY_ABOUT(fmt::format("attribute {}", as_utf8(name)), copy_attribute(opened, object, name));
    CODECFS_TRY(copy_comment(opened));
    if (H5Iget_type(opened.from.get()) != H5I_GROUP) return {};
    CODECFS_ASSIGN(const std::vector<StoredLink> links, stored_links(opened.from.get()));
    const std::string inside = object.path == "/" ? "" : object.path;
    for (const StoredLink& link : links)
      CODECFS_TRY(copy_link(opened, link, fmt::format("{}/{}", inside, as_utf8(link.name))));
    return {};
  }

  Result<> copy_comment(const Opened& opened) const {
    const ssize_t size = H5Oget_comment(opened.from.get(), nullptr, 0);
    if (size < 0) return fail_library(EIO, "its comment");
    if (size == 0) return {};
    std::string comment(static_cast<size_t>(size) + 1, '\0');
    if (H5Oget_comment(opened.from.get(), comment.data(), comment.size()) < 0 ||
        H5Oset_comment(opened.to.get(), comment.c_str()) < 0)
      return fail_library(EIO, "its comment");
    return {};
  }

  Result<> copy_attribute(const Opened& opened, const Copied& object, const std::string& name) {
    const Handle from(H5Aopen(opened.from.get(), name.c_str(), H5P_DEFAULT));
    const Handle space(H5Aget_space(from.get()));
    const Handle properties(H5Aget_create_plist(from.get()));
    Handle stored(H5Aget_type(from.get()));
    if (!space || !properties || !stored) return fail_library(EIO, "it cannot be opened");
    CODECFS_ASSIGN(const ValueLayout layout, ValueLayout::of(stored.get()));
    CODECFS_ASSIGN(const Handle type, type_of_copy(std::move(stored)));
    const Handle to(H5Acreate2(opened.to.get(), name.c_str(), type.get(), space.get(), properties.get(), H5P_DEFAULT));
    if (!to) return fail_library(EOPNOTSUPP, "libhdf5 does not make an attribute like it");
    if (!layout.references) return copy_attribute_value(from.get(), to.get(), references_);
    late_attributes_.push_back({object, name});
    return {};
  }

  /// The copy of a committed type, which is created on first use; other types do not depend on the file.
  Result<Handle> type_of_copy(Handle type) {
    const htri_t committed = H5Tcommitted(type.get());
    if (committed < 0) return fail_library(EIO, "its type");
    if (committed == 0) return type;
    ObjectInfo info;
    if (!object_info(type.get(), info)) return fail_library(EIO, "its type");
    const auto known = references_.find(info.address);
    if (!known) return make_type(type, "a committed type");
    Handle copy(open_object(to_, *known));
    if (!copy) return fail_library(EIO, "the copy of its type");
    return copy;
  }

  Result<Handle> make_type(const Handle& from, const std::string& path) {
    const Handle properties(H5Tget_create_plist(from.get()));
    Handle to(H5Tcopy(from.get()));
    if (!properties || !to || H5Tcommit_anon(to_, to.get(), properties.get(), H5P_DEFAULT) < 0)
      return fail_library(EIO, "a committed type");
    CODECFS_TRY(remember(from, to, path));
    // libhdf5 removes the unlinked type at close unless it has a reference.
    H5Iinc_ref(to.get());
    types_.emplace_back(to.get());
    return to;
  }

  Result<Handle> make_dataset(const Handle& from, const std::string& path) {
    CODECFS_ASSIGN(const bool only_copied, cannot_be_made(from.get()));
    if (only_copied) {
      CODECFS_ASSIGN(Handle whole, copy_whole_dataset(from.get(), to_, placeholders_));
      CODECFS_TRY(remember(from, whole, path));
      return whole;
    }
    Handle stored(H5Dget_type(from.get()));
    if (!stored) return fail_library(EIO, "its type");
    CODECFS_ASSIGN(const Handle type, type_of_copy(std::move(stored)));
    CODECFS_TRY(make_fill_targets(from));
    CODECFS_ASSIGN(Handle to, make_dataset_like(from.get(), type.get(), to_, placeholders_, references_));
    CODECFS_TRY(remember(from, to, path));
    CODECFS_ASSIGN(const bool late, data_needs_library(from.get()));
    if (late) {
      late_data_.push_back(found_.back());
    } else {
      CODECFS_TRY(copy_storage(from.get(), to.get(), file_bytes_, references_));
    }
    return to;
  }

  Result<> make_fill_targets(const Handle& from) {
    CODECFS_ASSIGN(const std::vector<uint64_t> targets, fill_targets(from.get(), references_));
    for (const uint64_t target : targets)
      if (!references_.find(target)) CODECFS_TRY(make_early(target));
    return {};
  }

  /// Creates an object to which a fill value refers and no link was found yet.
  Result<> make_early(uint64_t address) {
    constexpr size_t kMaxDepth = 100;  // of fill values that refer to datasets with such fill values
    if (!linked_) {
      CODECFS_ASSIGN(linked_, linked_objects(from_));
    }
    const auto linked = linked_->find(address);
    if (linked == linked_->end())
      return fail(EOPNOTSUPP, "its fill value refers to an object at {} that no longer exists", address);
    if (!in_progress_.insert(address).second || in_progress_.size() > kMaxDepth)
      return fail(EOPNOTSUPP, "fill values refer to each other's datasets");
    CODECFS_ASSIGN(const Handle to, make_object(address, linked->second));
    // Until it has a link, this keeps libhdf5 from removing it at close.
    if (H5Oincr_refcount(to.get()) < 0) return fail_library(EIO, "{}: its reference count", linked->second);
    early_.insert(address);
    in_progress_.erase(address);
    return {};
  }

  Result<Handle> make_group(const Handle& from, const std::string& path) {
    const Handle properties(H5Pcreate(H5P_GROUP_CREATE));
    CODECFS_TRY(copy_group_properties(from.get(), properties.get()));
    Handle to(H5Gcreate_anon(to_, properties.get(), H5P_DEFAULT));
    if (!to) return fail_library(EIO, "libhdf5 does not make a group like it");
    CODECFS_TRY(remember(from, to, path));
    return to;
  }

  Result<Handle> make_object(uint64_t address, const std::string& path) {
    const Handle from(open_object(from_, address));
    if (!from) return fail_library(EIO, "it cannot be opened");
    switch (H5Iget_type(from.get())) {
      case H5I_GROUP: return make_group(from, path);
      case H5I_DATASET: return make_dataset(from, path);
      case H5I_DATATYPE: return make_type(from, path);
      default: return fail(EOPNOTSUPP, "it is not a group, dataset or type");
    }
  }

  Result<> copy_link(const Opened& group, const StoredLink& link, const std::string& path) {
    const Handle properties(H5Pcreate(H5P_LINK_CREATE));
    if (!properties || H5Pset_char_encoding(properties.get(), link.encoding) < 0)
      return fail_library(EIO, "{}: its name", path);
    if (link.info.type == H5L_TYPE_HARD) {
      CODECFS_TRY_ABOUT(path, copy_hard_link(group, link, properties, path));
    } else {
      CODECFS_TRY_ABOUT(path, copy_other_link(group, link, properties));
    }
    return {};
  }

  Result<> copy_hard_link(const Opened& group, const StoredLink& link, const Handle& properties,
                          const std::string& path) {
    const auto known = references_.find(link.info.address);
    Handle to;
    if (known) {
      to = Handle(open_object(to_, *known));
      if (!to) return fail_library(EIO, "its copy");
    } else {
      CODECFS_ASSIGN(to, make_object(link.info.address, path));
    }
    if (H5Olink(to.get(), group.to.get(), link.name.c_str(), properties.get(), H5P_DEFAULT) < 0)
      return fail_library(EIO, "the link cannot be made");
    if (early_.erase(link.info.address) > 0 && H5Odecr_refcount(to.get()) < 0)
      return fail_library(EIO, "its reference count");
    return {};
  }

  Result<> copy_other_link(const Opened& group, const StoredLink& link, const Handle& properties) {
    const char* const name = link.name.c_str();
    LinkInfo info = link.info;
    if (info.type >= H5L_TYPE_UD_MIN) {
      CODECFS_TRY(placeholders_.register_link(info.type));
      if (!link_info(group.from.get(), name, info)) return fail_library(EIO, "the link cannot be read");
    }
    if (info.text_size > file_bytes_) return fail(EIO, "the link has {} bytes, more than the file", info.text_size);
    std::string value(info.text_size + 1, '\0');
    if (info.text_size > 0 && H5Lget_val(group.from.get(), name, value.data(), info.text_size, H5P_DEFAULT) < 0)
      return fail_library(EIO, "the link cannot be read");
    const herr_t made = info.type == H5L_TYPE_SOFT
                            ? H5Lcreate_soft(value.c_str(), group.to.get(), name, properties.get(), H5P_DEFAULT)
                            : H5Lcreate_ud(group.to.get(), name, info.type, value.data(), info.text_size,
                                           properties.get(), H5P_DEFAULT);
    if (made < 0) return fail_library(EOPNOTSUPP, "the link cannot be made");
    return {};
  }

  Result<> copy_late(const LateAttribute& late) const {
    CODECFS_ASSIGN(const Opened opened, open(late.object));
    const Handle from(H5Aopen(opened.from.get(), late.name.c_str(), H5P_DEFAULT));
    const Handle to(H5Aopen(opened.to.get(), late.name.c_str(), H5P_DEFAULT));
    if (!from || !to) return fail_library(EIO, "it cannot be opened");
    return copy_attribute_value(from.get(), to.get(), references_);
  }

  Result<> copy_late_data(const Copied& late) {
    CODECFS_TRY(provide_filters(late));
    CODECFS_ASSIGN(const Opened opened, open(late));
    return copy_elements(opened.from.get(), opened.to.get(), references_);
  }

  /// Leaves the dataset closed, so that filters can be registered.
  Result<> provide_filters(const Copied& late) {
    Handle properties;
    {
      CODECFS_ASSIGN(const Opened opened, open(late));
      CODECFS_ASSIGN(properties, creation_properties_of(opened.from.get()));
    }
    return placeholders_.provide_filters(properties.get());
  }

  hid_t from_;
  hid_t to_;
  uint64_t file_bytes_;
  PlaceholderFilters placeholders_;  // destroyed after all handles below
  ReferenceMap references_;
  std::vector<Handle> types_;                                        // committed types of the copy
  std::deque<Copied> found_;                                         // created, but still without attributes and links
  std::optional<std::unordered_map<uint64_t, std::string>> linked_;  // all objects with their paths; set if needed
  std::unordered_set<uint64_t> early_;        // addresses of what was created before a link to it was found
  std::unordered_set<uint64_t> in_progress_;  // of these, those that are being created
  std::vector<LateAttribute> late_attributes_;
  std::vector<Copied> late_data_;
};

}  // namespace

Result<Handle> creation_properties(hid_t file) {
  Handle properties(H5Fget_create_plist(file));
  const Handle root(H5Gopen2(file, "/", H5P_DEFAULT));
  if (!properties || !root) return fail_library(EIO, "its properties");
  CODECFS_TRY(copy_group_properties(root.get(), properties.get()));
  return properties;
}

Result<Handle> access_properties(hid_t file) {
  H5F_info2_t info;
  if (H5Fget_info2(file, &info) < 0) return fail_library(EIO, "its superblock");
  H5F_libver_t low = H5F_LIBVER_EARLIEST;
  if (info.super.version == 2) low = H5F_LIBVER_V18;
  if (info.super.version > 2) low = H5F_LIBVER_V110;
  Handle access(H5Pcreate(H5P_FILE_ACCESS));
  if (!access || H5Pset_libver_bounds(access.get(), low, H5F_LIBVER_LATEST) < 0) return fail_library(EIO, "its format");
  return access;
}

Result<> copy_objects(hid_t from, hid_t to, uint64_t file_bytes) { return FileCopy(from, to, file_bytes).copy(); }

}  // namespace codecfs::hdf5
