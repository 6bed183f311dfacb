#pragma once
// Extended attributes of the mounted files: reading them, and what setting them changes. Thread-safe.

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "fs/context/mount_context.h"
#include "fs/views/change_notifier.h"
#include "fs/views/filter_control.h"
#include "fs/views/mount_rules.h"

namespace codecfs::fs {

struct XattrView {
  std::shared_ptr<const std::vector<Xattr>> stored;
  std::vector<Xattr> live;          // user._Error, user._ErrorTime, user._Progress and user._NotStored, if they exist
  std::optional<Error> incomplete;  // why `stored` lacks attributes of the source
};

enum class XattrMode { any, create, replace };  // create: EEXIST; replace: ENODATA

class XattrControl {
 public:
  XattrControl(MountContext& mount, MountRules& rules, ChangeNotifier& notifier, FilterControl& filters)
      : mount_(mount), rules_(rules), notifier_(notifier), filters_(filters) {}

  /// The extended attributes of an inode. If those of the source cannot be read, user._Error is the reason.
  Result<XattrView> all(Ino ino);
  /// The attributes of XattrView::live alone, which do not wait for the source.
  Result<std::vector<Xattr>> live(Ino ino);
  /// Changes an attribute of a group or variable, or its filters. EOPNOTSUPP, EPERM, EROFS, EINVAL, and EINTR:
  /// cancelled, and nothing has changed.
  Result<> set(Ino ino, std::string_view name, std::string_view value, XattrMode mode, const Cancelled& cancelled = {});
  Result<> remove(Ino ino, std::string_view name, const Cancelled& cancelled = {});

 private:
  void note_incomplete(Ino ino, const Error& error);
  /// `unreadable`: set if the attributes of the source are missing from the result.
  std::optional<std::string> why_no_dataset(const Node& node);
  Result<std::vector<Xattr>> make_xattrs(const Place& place, std::optional<Error>& unreadable);

  MountContext& mount_;
  MountRules& rules_;
  ChangeNotifier& notifier_;
  FilterControl& filters_;
};

}  // namespace codecfs::fs
