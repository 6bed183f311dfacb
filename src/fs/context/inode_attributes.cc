#include "fs/context/inode_attributes.h"

namespace codecfs::fs {
namespace {

// What cat and cp take anyway. With more they map their buffer anew for each file, and clearing its pages takes longer
// than reading into them.
constexpr blksize_t kBlockSize = 128 << 10;  // bytes

}  // namespace

struct stat InodeAttributes::make(const Node& node, Ino ino, mode_t type, uint64_t size) const {
  struct stat status = mount_.dataset.source().status();
  if (node.kind == NodeKind::group || node.kind == NodeKind::variable)
    if (const Result<struct stat> own = mount_.dataset.source().status_of(node.object)) status = *own;
  const mode_t allowed = status.st_mode & (mount_.options.read_only ? 0444 : 0666);
  status.st_ino = ino;
  status.st_mode = type | (S_ISDIR(type) ? allowed | (allowed & 0444) >> 2 : S_ISLNK(type) ? 0777 : allowed);
  status.st_nlink = S_ISDIR(type) ? 2 : 1;
  status.st_size = static_cast<off_t>(size);
  status.st_blocks = static_cast<blkcnt_t>(blocks_of(size));
  status.st_blksize = kBlockSize;
  mount_.tree.times.apply(status);
  return status;
}

Result<struct stat> InodeAttributes::of_scratch(Ino ino) const {
  CODECFS_ASSIGN(struct stat status, mount_.tree.scratch.status(ino));
  status.st_uid = mount_.dataset.source().status().st_uid;
  status.st_gid = mount_.dataset.source().status().st_gid;
  status.st_blksize = kBlockSize;
  mount_.tree.times.apply(status);
  return status;
}

Result<struct stat> InodeAttributes::of_plain(const Node& node) const {
  CODECFS_ASSIGN(struct stat status, mount_.dataset.source().status_of(node.object));
  const bool is_file = node.kind == NodeKind::file;
  if (S_ISREG(status.st_mode) != is_file) return fail(ESTALE, "{}: was replaced", node.path);
  status.st_ino = node.ino();
  status.st_mode =
      (is_file ? S_IFREG : S_IFDIR) | (status.st_mode & (is_file || mount_.options.read_only ? 0555 : 0777));
  status.st_nlink = is_file ? 1 : 2;
  return status;
}

}  // namespace codecfs::fs
