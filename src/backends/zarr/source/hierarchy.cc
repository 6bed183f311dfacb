#include "backends/zarr/source/hierarchy.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "backends/api/names.h"
#include "backends/zarr/metadata/zarr3_metadata.h"
#include "backends/zarr/store/directory_writer.h"
#include "base/log.h"
#include "base/utf8.h"

namespace codecfs::zarr {
namespace {

// What is read to find a group or array below a directory without metadata.
constexpr size_t kMaxSearched = 64;    // directories
constexpr size_t kMaxEntries = 10000;  // of these

/// The files that make a directory a group; the second is NCZarr 4.8.0's.
constexpr const char* kGroupFiles[] = {kGroupFile, ".nczgroup"};

/// Files that are removed with a group. The last three are NCZarr 4.8.0's.
constexpr std::string_view kOwnFiles[] = {".zgroup", ".zattrs",  ".zmetadata", ".nczgroup",
                                          ".nczarr", ".nczattr", "zarr.json"};

/// Whether a name is invalid for a directory, or refers to another one.
bool is_no_name(std::string_view name) {
  return name.empty() || name == "." || name == ".." || name.find_first_of(std::string_view("/\0", 2)) != name.npos;
}

}  // namespace

Result<std::optional<EntryKind>> Hierarchy::kind_of(const std::string& key) const {
  CODECFS_ASSIGN(const auto kind, explicit_kind_of(key));
  if (kind || key.empty() || is_temporary_name(name_of(key))) return kind;
  CODECFS_ASSIGN(const bool is_group, holds_members(key));
  return is_group ? std::optional(EntryKind::group) : std::nullopt;
}

/// Whether there is a group or array below a directory. A directory without metadata is not Zarr's, or what is left of
/// an array with many chunks, so the search ends after some directories. Where a directory cannot be listed there is
/// none, as some object stores and web servers never list.
Result<bool> Hierarchy::holds_members(const std::string& key) const {
  std::vector<std::string> waiting{key};
  size_t entries = 0;
  for (size_t at = 0; at < waiting.size(); ++at) {
    const std::string directory = waiting[at];
    bool is_found = false;
    bool is_ended = at == kMaxSearched;
    const auto look = [&](const char* name, Store::EntryType type) -> Result<> {
      is_ended = is_ended || ++entries > kMaxEntries;
      if (is_ended || is_found) return fail(ECANCELED, "the search has ended");
      if (type == Store::EntryType::file || type == Store::EntryType::special || is_temporary_name(name)) return {};
      const std::string below = join_key(directory, name);
      const auto kind = explicit_kind_of(below);
      if (!kind && kind.error().code == EINTR) return std::unexpected(kind.error());
      is_found = !kind || *kind;
      if (type == Store::EntryType::directory || !store_.passes_link(below)) waiting.push_back(below);
      return {};
    };
    const Result<> listed = is_ended ? Result<>() : store_.for_each(directory, look);
    if (is_found) return true;
    if (!listed && listed.error().code == EINTR) return std::unexpected(listed.error());
    if (!is_ended) continue;
    if (!told_of_limit_.exchange(true))
      log::warning("{}: has no metadata and many files: groups and arrays deeper in it are not shown", key);
    return false;
  }
  return false;
}

Result<std::optional<EntryKind>> Hierarchy::explicit_kind_of(const std::string& key) const {
  if (is_temporary_name(std::string_view(key).substr(key.rfind('/') + 1))) return std::nullopt;
  if (format_ == ZarrFormat::v3) {
    CODECFS_ASSIGN(const auto text, read_text(join_key(key, kZarr3File)));
    if (!text) return std::nullopt;
    auto kind = zarr3_node_type(*text);
    if (!kind) return key.empty() ? pass_on(kind) : fail(kind.error().code, "{}: {}", key, kind.error().reason);
    return *kind;
  }
  CODECFS_ASSIGN(const bool is_array, store_.has_file(join_key(key, kArrayFile)));
  if (is_array) return EntryKind::variable;
  for (const char* file : kGroupFiles) {
    CODECFS_ASSIGN(const bool is_group, store_.has_file(join_key(key, file)));
    if (is_group) return EntryKind::group;
  }
  return std::nullopt;
}

Result<> Hierarchy::for_each(const std::string& group, const std::function<bool(std::string_view, EntryKind)>& visit,
                             const std::function<bool(std::string_view)>& skips) const {
  bool goes_on = true;
  return store_.for_each(group, [&](const char* name, Store::EntryType type) -> Result<> {
    if (!goes_on || type == Store::EntryType::file || type == Store::EntryType::special) return {};
    if (skips && skips(name)) return {};
    const std::string key = join_key(group, name);
    const auto kind = kind_of(key);
    if (!kind && !is_of_member(key, kind.error())) return std::unexpected(kind.error());
    if (!kind) {  // a link to itself or an inaccessible directory must not hide the other members
      log::warning("{}: left out of the listing: {}", key, kind.error().reason);
      return {};
    }
    if (!*kind) return {};
    if (type == Store::EntryType::unknown) {
      CODECFS_ASSIGN(const bool is_loop, forms_cycle(group, key));
      if (is_loop) {
        log::warning("{}: left out of the listing: it is a link to a directory that holds it", key);
        return {};
      }
    }
    goes_on = visit(std::string_view(name), **kind);
    return {};
  });
}

/// Whether an error of kind_of() concerns the member alone, and not the store, in which it may be found later.
bool Hierarchy::is_of_member(const std::string& key, const Error& error) const {
  if (error.code == EINTR) return false;
  constexpr int kOfStore[] = {ESTALE, ENOTCONN, ETIMEDOUT, EHOSTDOWN, ENODEV, ENXIO, EMFILE, ENFILE, ENOMEM};
  if (store_.reads_at_once() == 0) return std::ranges::find(kOfStore, error.code) == std::ranges::end(kOfStore);
  // Of an object store, only what was read can be damaged.
  return format_ == ZarrFormat::v3 && store_.has_file(join_key(key, kZarr3File)).value_or(false);
}

Result<std::optional<Hierarchy::Member>> Hierarchy::find(const std::string& group, std::string_view entry) const {
  if (is_cut_name(entry)) {
    std::optional<Member> found;
    CODECFS_TRY(for_each(group, [&](std::string_view name, EntryKind kind) {
      if (escape_name(name) == entry) found = {std::string(name), kind};
      return !found;
    }));
    return found;
  }
  const auto name = unescape_name(entry);
  if (!name || is_no_name(*name)) return std::nullopt;
  const std::string key = join_key(group, *name);
  CODECFS_ASSIGN(const auto kind, kind_of(key));
  if (!kind) return std::nullopt;
  CODECFS_ASSIGN(const bool is_loop, forms_cycle(group, key));
  if (is_loop) return std::nullopt;
  return Member{*name, *kind};
}

Result<std::string> Hierarchy::new_name(const std::string& group, std::string_view entry) {
  const auto refuse = [&](std::string_view why) {
    return fail(EINVAL, "{}: cannot be made in Zarr: {}", join_key(group, entry), why);
  };
  auto name = unescape_name(entry);
  if (!name || is_no_name(entry)) return refuse("no directory can have this name");
  if (is_no_name(*name))
    return refuse(fmt::format("it is how a name that no directory can have is shown; {} makes a member of this name",
                              escape_name(entry)));
  if (name->starts_with(".z") || name->starts_with(".ncz")) return refuse("such names are for files of metadata");
  if (is_temporary_name(*name)) return refuse("such names are for what is being written");
  if (!is_utf8(*name)) return std::string(entry);  // keys are UTF-8
  return std::move(*name);
}

Result<std::string> Hierarchy::free_name(const std::string& group, std::string_view entry) const {
  CODECFS_ASSIGN(std::string name, new_name(group, entry));
  const std::string key = join_key(group, name);
  CODECFS_ASSIGN(const auto status, store_.stat(key));
  if (!status) return name;
  CODECFS_ASSIGN(const auto kind, kind_of(key));
  return fail(EEXIST, "{}: {}", key,
              kind ? "exists" : "a file or directory that is not Zarr's has this name in the store");
}

Result<bool> Hierarchy::forms_cycle(const std::string& group, const std::string& key) const {
  if (!store_.passes_link(key)) return false;
  CODECFS_ASSIGN(const auto status, store_.stat(key));
  for (std::string above = group; status; above = holder_of(above)) {
    CODECFS_ASSIGN(const auto holder, store_.stat(above));
    if (holder && holder->st_dev == status->st_dev && holder->st_ino == status->st_ino) return true;
    if (above.empty()) break;
  }
  return false;
}

Result<std::optional<std::string>> read_metadata(const Store& store, const std::string& key) {
  CODECFS_ASSIGN(const auto buffer, store.read(key, kMaxMetadataBytes));
  if (!buffer) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(buffer->data()), buffer->size());
}

Result<> Hierarchy::check_empty(const std::string& group) const {
  return store_.for_each(group, [&](const char* name, Store::EntryType type) -> Result<> {
    if (is_temporary_name(name)) return {};
    const bool is_own = std::ranges::find(kOwnFiles, std::string_view(name)) != std::ranges::end(kOwnFiles);
    if (is_own && type != Store::EntryType::directory) return {};
    const std::string key = join_key(group, name);
    const auto kind = kind_of(key);
    if (kind && *kind) return fail(ENOTEMPTY, "{}: is not empty: {} is in it", group, name);
    return fail(ENOTEMPTY, "{}: the file {} in it is not Zarr's: see what it is, and remove it there first", group,
                name);
  });
}

Result<> Hierarchy::check_no_links(const std::string& key) const {
  return store_.for_each(key, [&](const char* name, Store::EntryType type) -> Result<> {
    const std::string member = join_key(key, name);
    if (type == Store::EntryType::unknown && store_.passes_link(member))
      return fail(EOPNOTSUPP, "{}: is a symbolic link, whose target would change with the move", member);
    if (type == Store::EntryType::file || type == Store::EntryType::special) return {};
    CODECFS_ASSIGN(const auto status, store_.stat(member));
    return status && S_ISDIR(status->st_mode) ? check_no_links(member) : Result<>();
  });
}

}  // namespace codecfs::zarr
