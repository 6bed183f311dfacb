#pragma once
// The groups and links of an HDF5 file as a tree: each object has one path, and all other links to it are symbolic
// links.
//
// HDF5 is a graph: objects may have several hard links, and links may form cycles. An object with one hard link has
// that link's path. An object with several has the path at which a breadth-first walk of the file, in listing order,
// finds it first; its other links, and links to the root, are shown as symlinks to that path. The walk happens once,
// when the first such object is found.
//
// Objects are numbered in the order in which they are first returned. A number keeps referring to its object after a
// move, and becomes invalid when the object is removed, because HDF5 reuses addresses. Code that changes links must
// notify the tree, which then also determines the paths of objects with several links again.
//
// All calls under a LibraryLock, which also guards the tree's own state.

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/api/source.h"
#include "backends/hdf5/library/access_recorder.h"
#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/metadata/links.h"
#include "backends/hdf5/metadata/node_journal.h"

namespace codecfs::hdf5 {

class ObjectTree {
 public:
  static constexpr ObjectId kRoot = 0;

  /// `file` must stay open as long as the tree exists; `path` and `status` are the file's.
  static Result<ObjectTree> make(hid_t file, std::string path, const struct stat& status,
                                 const AccessRecorder& recorder);
  /// A tree with one group as root, which ignores that objects may have several links.
  static Result<ObjectTree> below(hid_t file, uint64_t group, const AccessRecorder& recorder);

  /// Continues with the numbers in a journal, and records new ones there.
  void keep_journal(std::unique_ptr<NodeJournal> journal);
  /// Stores what was recorded; to be called before numbers are given to another process.
  void write_journal() const;
  /// Bytes that are stored there.
  [[nodiscard]] uint64_t journal_end() const { return journal_ ? journal_->end() : 0; }
  /// Sets the identifier of the reopened file.
  void use(hid_t file) { file_ = file; }

  /// Whether netCDF-4 wrote the file, according to attributes of its root or of one of its first datasets.
  [[nodiscard]] bool is_netcdf() const;

  Result<std::vector<Entry>> list(ObjectId group);
  Result<std::vector<UnreadableMember>> unreadable_members(ObjectId group);
  /// What an object's header says, read in a quicker way than libhdf5's; none: libhdf5 must be asked.
  struct Outline {
    ObjectInfo info;
    bool has_name = false;  // an attribute "NAME"
  };
  using OutlineOf = std::function<std::optional<Outline>(uint64_t address)>;
  /// What list() and unreadable_members() return. `outline_of` may be empty.
  Result<Members> overview(ObjectId group, const OutlineOf& outline_of);
  /// Source::link_notes().
  Result<std::vector<Attribute>> link_notes(ObjectId group);
  Result<Entry> find(ObjectId group, std::string_view file_name);
  /// The entry with its HDF5 link.
  struct Member {
    Link link;
    Entry entry;
  };
  Result<Member> member(ObjectId group, std::string_view file_name);
  /// The link name for a new member that is shown as `file_name`: with netCDF's prefix if a dimension without variable
  /// has the name. EEXIST; EINVAL for names that HDF5 does not support.
  Result<std::string> new_link_name(ObjectId group, std::string_view file_name);
  /// ENOTEMPTY if a group has a visible member; EIO if one cannot be read.
  Result<> check_empty(ObjectId group);

  /// Opens an object by its address, without resolving a path. ENOENT for an invalid number or a removed object.
  [[nodiscard]] Result<Handle> open(ObjectId object) const;
  /// As open(), for a group; ENOTDIR for a variable.
  [[nodiscard]] Result<Handle> open_group(ObjectId group) const;
  /// Opens a group by its path, as H5Lmove (1.10) requires: it crashes if libhdf5 does not know the path of a group.
  [[nodiscard]] Result<Handle> open_with_path(ObjectId group) const;
  /// For messages: "/ocean/salinity", as UTF-8.
  [[nodiscard]] std::string path(ObjectId object) const;
  [[nodiscard]] uint64_t address(ObjectId object) const { return nodes_[object].address; }
  /// None if there is no such variable (any more).
  [[nodiscard]] std::optional<uint64_t> address_of_variable(ObjectId object) const {
    if (object >= nodes_.size() || nodes_[object].gone || nodes_[object].group) return std::nullopt;
    return nodes_[object].address;
  }
  /// The name of the object's link, and the group that contains the link (the root's is the root).
  [[nodiscard]] const std::string& link_name(ObjectId object) const { return nodes_[object].name; }
  [[nodiscard]] ObjectId parent(ObjectId object) const { return nodes_[object].parent; }
  /// The number of the object at an address, if it has one.
  [[nodiscard]] std::optional<ObjectId> number_of(uint64_t address) const;
  /// All numbered objects that are `object` or its descendants.
  [[nodiscard]] std::vector<ObjectId> subtree(ObjectId object) const;
  /// Whether `object` is `group` or below it.
  [[nodiscard]] bool is_within(ObjectId object, ObjectId group) const;

  /// Notifications: the object is no longer at its path; it now has this link. links_changed() must follow each of
  /// them, and every other change of links.
  void removed(ObjectId object);
  void moved(ObjectId object, ObjectId group, std::string link_name);
  void links_changed();
  /// A committed type that was made of a note (link_notes.cc).
  void note_committed(uint64_t address) { committed_types_.push_back(address); }
  /// The first of these that is equal; invalid if there is none.
  [[nodiscard]] Handle committed_like(hid_t type) const;
  /// Determines the paths of objects with several links.
  void find_places();

 private:
  struct Place {
    uint64_t parent = 0;  // address of the parent group
    std::string name;
  };

  ObjectTree() = default;
  ObjectId add(TreeNode node);
  /// Calls `visit` with each member that is shown, or the reason why it cannot be read.
  Result<> for_each(ObjectId group, const std::function<void(const Link& link, Result<Entry> entry)>& visit);
  Result<std::optional<Entry>> entry_of(ObjectId group, hid_t handle, const Link& link);
  Result<std::optional<Entry>> hard_link(ObjectId group, hid_t handle, const Link& link, Entry entry);
  std::string shown_name(hid_t group, const std::string& link_name) const;
  bool is_hidden(hid_t group, const std::string& link_name) const;
  Result<std::string> soft_target(ObjectId group, hid_t handle, const Link& link) const;
  Result<std::string> external_target(ObjectId group, hid_t handle, const Link& link) const;
  [[nodiscard]] std::string relative_target(ObjectId group, std::string_view path) const;
  [[nodiscard]] bool is_this_file(std::string_view file_name) const;
  void update_path(uint64_t address);
  [[nodiscard]] std::vector<const std::string*> names_to(ObjectId object) const;
  [[nodiscard]] std::optional<std::string> place_path(uint64_t address) const;

  hid_t file_ = H5I_INVALID_HID;
  const AccessRecorder* recorder_ = nullptr;
  std::string file_path_;
  struct stat status_{};
  void note(ObjectId object) const;

  std::optional<Outline> outline_of(hid_t group, const Link& link) const;

  OutlineOf outline_of_;  // during overview()
  std::vector<TreeNode> nodes_;
  std::vector<uint64_t> member_counts_;    // for each of them, how many are in it and not gone
  std::vector<uint64_t> committed_types_;  // addresses
  std::unique_ptr<NodeJournal> journal_;
  std::unordered_map<uint64_t, ObjectId> numbers_;             // by address
  std::optional<std::unordered_map<uint64_t, Place>> places_;  // of groups and of objects with several links
};

}  // namespace codecfs::hdf5
