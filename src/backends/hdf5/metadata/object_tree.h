#pragma once
// The groups and links of an HDF5 file as a tree of names: every object at one place, all else symbolic links.
//
// HDF5 is a graph: objects may have several hard links, and links may close cycles. An object with one hard link stands
// at it. One with more stands where a breadth-first walk of the file, in listing order, meets it first; its other
// links, and links to the root, are shown as symlinks to that place. The walk is made once, when the first such object
// is met.
//
// Objects are numbered in the order in which they are first handed out. A number stays its object's wherever that is
// moved to, and is nobody's when the object is gone: HDF5 uses addresses again. Who changes links tells the tree, which
// then also looks anew where objects with several links stand.
//
// All calls under a LibraryLock, which also guards the tree's own state.

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/api/source.h"
#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/watch.h"

namespace codecfs::hdf5 {

/// netCDF's prefix of a variable that has the name of a dimension without being its coordinate variable.
inline constexpr std::string_view kNonCoordinate = "_nc4_non_coord_";
/// The name that netCDF knows an object by.
std::string_view netcdf_name(std::string_view link_name);

struct Link {
  std::string name;
  LinkInfo info;
};
/// All links of a group in creation order where it is kept, else by name; the order in which netCDF sees them too.
Result<std::vector<Link>> links_of(hid_t group);

/// Whether libhdf5 would take the text as the name of one link and not as a path.
bool is_link_name(std::string_view name);
/// The components of an HDF5 path, without the "." that mean nothing.
std::vector<std::string_view> components_of(std::string_view path);

/// A path that leads to the object at an address, where libhdf5 finds one; else empty.
std::string path_of(hid_t file, uint64_t address);

/// Whether the dataset is one of netCDF's dimensions that have no variable.
bool is_dimension_without_variable(hid_t dataset);

class ObjectTree {
 public:
  static constexpr ObjectId kRoot = 0;

  /// `file` stays open as long as the tree; `path` and `status` are the file's own.
  static Result<ObjectTree> make(hid_t file, std::string path, const struct stat& status, Watch& watch);
  /// One group as if it were the root of a file without objects of several links.
  static Result<ObjectTree> below(hid_t file, uint64_t group, Watch& watch);

  /// The file was opened again, as this.
  void use(hid_t file) { file_ = file; }

  /// Whether netCDF-4 wrote the file: by the marks of its root, or of one of its first datasets.
  [[nodiscard]] bool is_netcdf() const;

  Result<std::vector<Entry>> list(ObjectId group);
  Result<Entry> find(ObjectId group, std::string_view file_name);
  /// The same with the link behind it.
  struct Member {
    Link link;
    Entry entry;
  };
  Result<Member> member(ObjectId group, std::string_view file_name);
  /// The link that a new member is to have, so that it is shown as `file_name`: with netCDF's prefix where a dimension
  /// without variable has the name. EEXIST; EINVAL for what HDF5 cannot hold.
  Result<std::string> new_link_name(ObjectId group, std::string_view file_name);
  /// ENOTEMPTY where a group shows a member; EIO where one cannot be read.
  Result<> check_empty(ObjectId group);

  /// Opens an object by its address: no path is walked. ENOENT for a number never handed out, or of what is gone.
  [[nodiscard]] Result<Handle> open(ObjectId object) const;
  /// The same; ENOTDIR for a variable.
  [[nodiscard]] Result<Handle> open_group(ObjectId group) const;
  /// A group as libhdf5 needs it to move links: H5Lmove (1.10) crashes where it does not know the path of a group.
  [[nodiscard]] Result<Handle> open_with_path(ObjectId group) const;
  /// For messages: "/ocean/salinity", as UTF-8.
  [[nodiscard]] std::string path(ObjectId object) const;
  [[nodiscard]] uint64_t address(ObjectId object) const { return nodes_[object].address; }
  /// The link that leads to the object, and the group that holds it (the root's is the root).
  [[nodiscard]] const std::string& link_name(ObjectId object) const { return nodes_[object].name; }
  [[nodiscard]] ObjectId parent(ObjectId object) const { return nodes_[object].parent; }
  /// The number of the object at an address, where it was handed out.
  [[nodiscard]] std::optional<ObjectId> number_of(uint64_t address) const;
  /// The addresses of `count` objects at most, in the order in which they were handed out, from the one at an address
  /// on.
  [[nodiscard]] std::vector<uint64_t> following(uint64_t address, size_t count) const;
  /// All that were handed out and are `object` or below it.
  [[nodiscard]] std::vector<ObjectId> subtree(ObjectId object) const;
  /// Whether `object` is `group` or below it.
  [[nodiscard]] bool is_within(ObjectId object, ObjectId group) const;

  /// What changed: the object is gone from the place where it stood; it has this link now. After each of these, and
  /// after every other change of links, links_changed().
  void removed(ObjectId object);
  void moved(ObjectId object, ObjectId group, std::string link_name);
  void links_changed();
  /// Finds out where objects with several links stand.
  void find_places();

 private:
  struct Node {
    uint64_t address = 0;
    ObjectId parent = 0;
    std::string name;
    bool group = false;
    bool gone = false;
  };
  struct Place {
    uint64_t parent = 0;  // address of the group
    std::string name;
  };

  ObjectTree() = default;
  Result<std::optional<Entry>> entry_of(ObjectId group, hid_t handle, const Link& link);
  Result<std::optional<Entry>> hard_link(ObjectId group, hid_t handle, const Link& link, Entry entry);
  std::string shown_name(hid_t group, const std::string& link_name) const;
  bool is_hidden(hid_t group, const std::string& link_name) const;
  Result<std::string> soft_target(ObjectId group, hid_t handle, const Link& link) const;
  Result<std::string> external_target(ObjectId group, hid_t handle, const Link& link) const;
  [[nodiscard]] std::string relative_target(ObjectId group, std::string_view path) const;
  [[nodiscard]] bool is_this_file(std::string_view file_name) const;
  void settle(uint64_t address);
  [[nodiscard]] std::optional<std::string> place_path(uint64_t address) const;

  hid_t file_ = H5I_INVALID_HID;
  Watch* watch_ = nullptr;
  std::string file_path_;
  struct stat status_{};
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, ObjectId> numbers_;             // by address
  std::optional<std::unordered_map<uint64_t, Place>> places_;  // of groups and of objects with several links
};

}  // namespace codecfs::hdf5
