#include "backends/zarr/store/zip_tree.h"

#include <sys/stat.h>

#include <algorithm>
#include <new>
#include <utility>

#include "backends/zarr/store/store.h"
#include "base/log.h"
#include "base/utf8.h"

namespace codecfs::zarr {
namespace {

constexpr uint16_t kUnix = 3;          // upper byte of "made by"
constexpr unsigned kMaxWarnings = 10;  // per archive

/// Why no file can have this name; null: it can.
const char* wrong_with(std::string_view name) {
  if (name.empty()) return "it has no name";
  if (name.find('\0') != std::string_view::npos) return "its name has a NUL in it";
  if (!is_utf8(name)) return "its name is not UTF-8";
  if (name.front() == '/') return "its name is an absolute path";
  if (name.back() == '/') name.remove_suffix(1);
  size_t depth = 0;
  for (size_t start = 0; start <= name.size(); ++depth) {
    const size_t end = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, end - start);
    if (part.empty() || part == "." || part == "..")
      return "its name is not a plain path and may point outside the store";
    start = end + 1;
  }
  return depth > ZipTree::kMaxDepth ? "it is nested too deeply" : nullptr;
}

bool is_metadata_name(std::string_view name) {
  return name == ".zarray" || name == ".zgroup" || name == ".zmetadata" || name == "zarr.json";
}

/// A name without "./" at its begin.
std::string_view without_current(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  return name;
}

/// Whether the entry is a file or directory, not a link or device.
bool is_plain(const zip::CentralRecord& record) {
  if (record.made_by >> 8 != kUnix) return true;
  const mode_t type = (record.external >> 16) & S_IFMT;
  return type == 0 || type == S_IFREG || type == S_IFDIR;
}

/// Components and bytes of the longest path.
struct Reach {
  size_t parts = 0;
  size_t bytes = 0;
};

Reach reach_of(std::string_view path) {
  return {.parts = static_cast<size_t>(std::ranges::count(path, '/')) + 1, .bytes = path.size()};
}

Reach reach_below(const ZipDirectory& directory) {
  Reach reach;
  for (const auto& [name, member] : directory.members) {
    Reach one = {.parts = 1, .bytes = name.size() + 1};
    if (const auto* below = std::get_if<ZipDirectoryPtr>(&member)) {
      const Reach more = reach_below(**below);
      one.parts += more.parts;
      one.bytes += more.bytes;
    }
    reach = {.parts = std::max(reach.parts, one.parts), .bytes = std::max(reach.bytes, one.bytes)};
  }
  return reach;
}

}  // namespace

uint64_t size_of(const ZipPlace& place) {
  if (const auto* archived = std::get_if<ArchivedBytes>(&place)) return archived->entry.size;
  return std::get<SpilledPtr>(place)->size();
}

Result<Buffer> read_place(const ZipPlace& place, const std::string& name, uint64_t limit) {
  if (const auto* archived = std::get_if<ArchivedBytes>(&place))
    return archived->archive->read(archived->entry, name, limit);
  const Spilled& spilled = *std::get<SpilledPtr>(place);
  if (spilled.size() > limit)
    return fail(EIO, "{}: {} bytes, more than the {} that it can need", name, spilled.size(), limit);
  CODECFS_ASSIGN(Buffer bytes, Buffer::allocate(static_cast<size_t>(spilled.size())));
  CODECFS_TRY(spilled.read(0, bytes.mutable_bytes()));
  return bytes;
}

bool has_parts(const ZipPlace& place) {
  const auto* archived = std::get_if<ArchivedBytes>(&place);
  if (archived == nullptr) return true;
  const ZipEntry& entry = archived->entry;
  return entry.method == zip::kStored && (entry.flags & zip::kEncrypted) == 0 && entry.size == entry.stored;
}

Result<Buffer> read_part(const ZipPlace& place, const std::string& name, uint64_t offset, uint64_t size) {
  CODECFS_ASSIGN(Buffer bytes, Buffer::allocate(static_cast<size_t>(size)));
  if (const auto* archived = std::get_if<ArchivedBytes>(&place)) {
    CODECFS_ASSIGN(const ZipArchive::Data data, archived->archive->locate(archived->entry, name));
    CODECFS_TRY(archived->archive->read_exactly(data.offset + offset, bytes.mutable_bytes()));
  } else {
    CODECFS_TRY(std::get<SpilledPtr>(place)->read(offset, bytes.mutable_bytes()));
  }
  return bytes;
}

uint64_t next_zip_file_number() {
  static std::atomic<uint64_t> next = 0;
  return ++next;
}

/// Inserts the entries of an archive into a tree.
class ZipTree::Builder {
 public:
  explicit Builder(ZipTree& tree) : tree_(tree), top_(tree.new_directory()) {}

  Result<> add(const zip::CentralRecord& record, const ZipEntry& entry) {
    // As `zip -r a.zip ./*` and tar's converters have them.
    const std::string_view plain = without_current(record.name);
    if (plain.empty() && !record.name.empty()) return {};
    if (const char* wrong = wrong_with(plain)) return omit(record.name, wrong);
    if (!is_plain(record)) return omit(record.name, "it is a link or a device");
    if ((entry.flags & zip::kEncrypted) != 0) tree_.lost_ = fmt::format("{}: is encrypted", record.name);
    if (tree_.first_name.empty()) tree_.first_name = plain;
    std::string_view path = plain;
    const bool is_directory = path.back() == '/';
    if (is_directory) path.remove_suffix(1);
    const size_t slash = path.rfind('/');
    const std::string_view holder = slash == std::string_view::npos ? "" : path.substr(0, slash);
    CODECFS_ASSIGN(const ZipDirectoryPtr directory, directory_of(is_directory ? path : holder));
    if (!directory) return omit(record.name, "another entry is a file where it needs a directory");
    if (is_directory) {
      if (directory->entry) warn(record.name, "occurs twice");
      directory->entry = ArchivedBytes{nullptr, entry};
      tree_.has_directory_entries = true;
      if (entry.size != 0) return omit(record.name, "it is a directory with bytes in it");
      return {};
    }
    const auto [place, is_new] = directory->members.try_emplace(std::string(path.substr(slash + 1)));
    if (!is_new && std::holds_alternative<ZipDirectoryPtr>(place->second))
      return omit(record.name, "it is a file where another entry needs a directory");
    // zarr-python rewrites a chunk by appending it; readers use the last one.
    if (!is_new)
      warn(record.name, "occurs more than once: the last one is used, and the next commit drops the earlier ones");
    auto file = std::make_shared<ZipFile>();
    file->place = ArchivedBytes{nullptr, entry};
    place->second = std::move(file);
    return {};
  }

  /// Sets the archive of all entries, and puts them into the tree.
  Result<> finish(const std::shared_ptr<const ZipArchive>& all_of) {
    if (has_backslashes_for_slashes()) CODECFS_TRY(separate_at_backslashes());
    belong_to(*top_, all_of);
    if (warnings_ > kMaxWarnings)
      log::warning("{}: {} more such entries", all_of->file().path, warnings_ - kMaxWarnings);
    const LockGuard lock(tree_.mutex);
    tree_.archive = all_of;
    tree_.top = top_;
    return {};
  }

 private:
  /// Whether a program for Windows (.NET Framework before 4.6.1) wrote the archive, against the specification: no name
  /// has a slash, some have backslashes, and it is a Zarr store only if these separate names.
  [[nodiscard]] bool has_backslashes_for_slashes() const {
    bool has_some = false;
    bool has_metadata = false;
    for (const auto& [name, member] : top_->members) {
      if (std::holds_alternative<ZipDirectoryPtr>(member)) return false;
      const size_t last = name.rfind('\\');
      has_some |= last != std::string::npos;
      has_metadata |= is_metadata_name(std::string_view(name).substr(last == std::string::npos ? 0 : last + 1));
    }
    return has_some && has_metadata;
  }

  /// Takes backslashes for slashes, as Info-ZIP does. All entries are files at the top.
  Result<> separate_at_backslashes() {
    const auto flat = std::exchange(top_->members, {});
    for (const auto& [name, member] : flat) {
      std::string path = name;
      std::ranges::replace(path, '\\', '/');
      if (const char* wrong = wrong_with(path)) {
        CODECFS_TRY(omit(name, wrong));
        continue;
      }
      const bool is_directory = path.back() == '/';
      if (is_directory) path.pop_back();
      const size_t slash = path.rfind('/');
      CODECFS_ASSIGN(const ZipDirectoryPtr directory,
                     directory_of(is_directory ? std::string_view(path)
                                               : std::string_view(path).substr(0, slash == path.npos ? 0 : slash)));
      if (!directory) {
        CODECFS_TRY(omit(name, "another entry is a file where it needs a directory"));
      } else if (!is_directory) {
        const bool is_new = directory->members.try_emplace(path.substr(slash + 1), member).second;
        if (!is_new) CODECFS_TRY(omit(name, "another entry has the same path"));
      }
    }
    std::ranges::replace(tree_.first_name, '\\', '/');
    // The entries keep their names, which other programs find in the local headers.
    if (!tree_.lost_) tree_.lost_ = "its names have backslashes instead of slashes";
    return {};
  }

  static void belong_to(ZipDirectory& directory, const std::shared_ptr<const ZipArchive>& archive) {
    if (directory.entry) directory.entry->archive = archive;
    for (auto& [name, member] : directory.members) {
      if (auto* file = std::get_if<ZipFilePtr>(&member)) {
        std::get<ArchivedBytes>((*file)->place).archive = archive;
      } else {
        belong_to(*std::get<ZipDirectoryPtr>(member), archive);
      }
    }
  }

  /// The directory of a path, created if needed; null if a file is in its place.
  Result<ZipDirectoryPtr> directory_of(std::string_view path) {
    if (latest_ && path == latest_path_) return latest_;
    ZipDirectoryPtr at = top_;
    for (size_t start = 0; start < path.size();) {
      const size_t end = std::min(path.find('/', start), path.size());
      const std::string_view part = path.substr(start, end - start);
      auto found = at->members.find(part);
      if (found == at->members.end()) {
        if (++directories_ > kMaxDirectories) return fail(EFBIG, "has more than {} directories", kMaxDirectories);
        found = at->members.emplace(part, tree_.new_directory()).first;
      }
      const auto* directory = std::get_if<ZipDirectoryPtr>(&found->second);
      if (directory == nullptr) return ZipDirectoryPtr();
      at = *directory;
      start = end + 1;
    }
    latest_ = at;
    latest_path_ = path;
    return at;
  }

  void warn(std::string_view name, const char* what) {
    if (++warnings_ <= kMaxWarnings) log::warning("the entry \"{}\" of the archive {}", shown(name), what);
  }
  Result<> omit(std::string_view name, const char* why) {
    if (++warnings_ <= kMaxWarnings) log::warning("the entry \"{}\" of the archive is left out: {}", shown(name), why);
    tree_.lost_ = fmt::format("the entry \"{}\" is left out: {}", shown(name), why);
    return {};
  }
  /// A name without control characters.
  static std::string shown(std::string_view name) {
    const bool is_text = is_utf8(name);
    std::string text;
    for (const char c : name.substr(0, 200)) {
      const auto byte = static_cast<unsigned char>(c);
      text += byte < ' ' || byte == 0x7F || (byte > 0x7F && !is_text) ? '?' : c;
    }
    return text;
  }

  ZipTree& tree_;
  const ZipDirectoryPtr top_;
  ZipDirectoryPtr latest_;
  std::string latest_path_;
  uint64_t directories_ = 0;
  uint64_t warnings_ = 0;
};

Result<std::shared_ptr<ZipTree>> ZipTree::open(ZipBytes bytes) try {
  auto tree = std::make_shared<ZipTree>();
  Builder builder(*tree);
  CODECFS_ASSIGN(const auto archive,
                 ZipArchive::open(std::move(bytes), [&](const zip::CentralRecord& record, const ZipEntry& entry) {
                   return builder.add(record, entry);
                 }));
  CODECFS_TRY(builder.finish(archive));
  return tree;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory for what the zip archive holds");
}

Result<> ZipTree::whole() const {
  if (!lost_) return {};
  return fail(EROFS, "the archive can only be read, as it could not be written again with all that is in it: {}",
              *lost_);
}

std::optional<ZipMember> find_zip_member(const ZipDirectoryPtr& from, std::string_view key) {
  ZipMember at = from;
  for (size_t start = 0; start < key.size();) {
    const size_t end = std::min(key.find('/', start), key.size());
    const auto* directory = std::get_if<ZipDirectoryPtr>(&at);
    if (directory == nullptr) return std::nullopt;
    const auto found = (*directory)->members.find(key.substr(start, end - start));
    if (found == (*directory)->members.end()) return std::nullopt;
    at = ZipMember(found->second);  // keeps the parent directory alive during the search
    start = end + 1;
  }
  return at;
}

Result<> ZipTree::check_reach(const std::string& key, const ZipDirectory* below) const {
  const Reach above = reach_of(join_key(store_name, key));
  const Reach more = below != nullptr ? reach_below(*below) : Reach();
  if (above.parts + more.parts < kMaxDepth && above.bytes + more.bytes < zip::kMaxName) return {};
  return fail(ENAMETOOLONG, "{}: is nested too deeply, or its path is too long, for a zip archive", key);
}

ZipDirectoryPtr find_zip_directory(const ZipDirectoryPtr& from, std::string_view key) {
  const auto member = find_zip_member(from, key);
  if (!member || !std::holds_alternative<ZipDirectoryPtr>(*member)) return nullptr;
  return std::get<ZipDirectoryPtr>(*member);
}

}  // namespace codecfs::zarr
