// Lookup, attributes, reading. Listing is in tree_listing.cc.

#include "fs/tree.h"

#include <algorithm>
#include <array>

#include "backends/names.h"
#include "base/log.h"
#include "base/long_work.h"
#include "filters/codec_json.h"
#include "filters/filter_table.h"
#include "fs/metadata_files.h"

namespace codecfs::fs {
namespace {

// What cat and cp take anyway. With more they map their buffer anew for each file, and clearing its pages takes longer
// than reading into them.
constexpr blksize_t kBlockSize = 128 << 10;  // bytes
constexpr size_t kMaxErrors = 4096;          // inodes whose latest reason is remembered
// For so long after something was made in it a new directory shows only what was written to it. cp needs no longer from
// one file to the next.
constexpr std::chrono::seconds kFresh{10};

/// No reason: a name that is not there is an answer, not a failure.
std::unexpected<Error> not_there() { return std::unexpected(Error{ENOENT, {}}); }

uint64_t blocks_of(uint64_t bytes) { return (bytes + 511) / 512; }

/// Whether the file stands for a variable as a whole.
bool is_variable(const Place& place) {
  if (place.node->kind != NodeKind::variable) return false;
  return place.file == FileKind::itself || place.file == FileKind::array;
}

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

/// Why a full name is not that of a variable; empty where it is.
std::string why_no_variable(Source& source, std::string_view name) {
  Entry entry = source.root();
  for (name.remove_prefix(1); !name.empty(); name.remove_prefix(std::min(name.find('/'), name.size() - 1) + 1)) {
    const std::string_view part = name.substr(0, name.find('/'));
    if (entry.kind != EntryKind::group && entry.kind != EntryKind::folder) return "there is no such variable";
    // In a folder names are as they are.
    Result<Entry> found =
        source.find(entry.object, entry.kind == EntryKind::folder ? std::string(part) : escape_name(part));
    if (!found) return found.error().code == ENOENT ? "there is no such variable" : found.error().reason;
    entry = *std::move(found);
  }
  if (entry.kind == EntryKind::group) return "this is a group, not a variable";
  if (entry.kind == EntryKind::folder || entry.kind == EntryKind::file) return "this is no dataset";
  if (entry.kind == EntryKind::symlink) return fmt::format("this is a link to {}; name that", entry.target);
  return {};
}

}  // namespace

Tree::Tree(std::unique_ptr<Source> source, const Options& options)
    : dataset_(std::move(source)),
      nodes_(dataset_.source().root(), options.view),
      cache_(options.cache_bytes, stats_),
      conversions_(options.cache_bytes / 4, conversion_stats_),
      rules_(options.rules),
      read_only_(options.read_only || !dataset_.source().writable()),
      coherent_(options.coherent),
      block_size_(std::max<uint64_t>(options.cache_bytes / 4, 1)),
      write_back_(
          dataset_, cache_, conversions_, stats_, options.write_back,
          [this](const ChunkPlace& chunk) { return base_of(chunk); },
          [this](const ChunkPlace& chunk) -> Result<> {
            CODECFS_TRY(nodes_.at(chunk.key));
            return {};
          }),
      read_ahead_(options.cache_bytes / 2) {}

Result<Place> Tree::place_of(Ino ino) const {
  CODECFS_ASSIGN(const Place place, nodes_.at(ino));
  if (place.node->kind != NodeKind::scratch) return place;
  const std::optional<Ino> chunk = scratch_.became(ino);
  return chunk ? nodes_.at(*chunk) : place;
}

Tree::DirectoryState Tree::state_of(const Node& directory) const {
  const std::lock_guard lock(states_mutex_);
  const auto found = states_.find(directory.key());
  if (found == states_.end()) return {};
  DirectoryState state = found->second;
  const bool expired = std::chrono::steady_clock::now() - state.latest > kFresh;
  if (state.fresh && (expired || directory.view != state.made_in)) {
    state.fresh = false;
    state.hidden.clear();
  }
  return state;
}

void Tree::note_made(const Node& directory) {
  const std::lock_guard lock(states_mutex_);
  if (const auto found = states_.find(directory.key()); found != states_.end())
    found->second.latest = std::chrono::steady_clock::now();
}

void Tree::show(const Node& node, std::initializer_list<FileKind> files) {
  const std::lock_guard lock(states_mutex_);
  const auto found = states_.find(node.key());
  if (found == states_.end() || !found->second.fresh) return;
  for (const FileKind file : files) found->second.hidden.erase(file);
}

void Tree::forget_state(const Node& directory) {
  const std::lock_guard lock(states_mutex_);
  states_.erase(directory.key());
  unlinked_.erase(directory.key());
}

bool Tree::is_unlinked(const Node& directory, uint64_t number) const {
  const std::lock_guard lock(states_mutex_);
  const auto found = unlinked_.find(directory.key());
  return found != unlinked_.end() && found->second.contains(number);
}

void Tree::forget_unlinked(const Node& directory, uint64_t number) {
  const std::lock_guard lock(states_mutex_);
  if (const auto found = unlinked_.find(directory.key()); found != unlinked_.end()) found->second.erase(number);
}

Result<ChunkPlace> Tree::chunk_place(const Node& node, uint64_t number) {
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  CODECFS_ASSIGN(const Ino key, nodes_.chunk_key(node, number, view->facts->grid.count()));
  return ChunkPlace{key, node.object, number, view};
}

void Tree::note_error(Ino ino, const Error& error) {
  if (error.reason.empty()) return;
  ++stats_.errors;
  log::error("{}", error.reason);
  remember_error(ino, error);
}

void Tree::remember_error(Ino ino, const Error& error) {
  const std::lock_guard lock(errors_mutex_);
  if (errors_.size() >= kMaxErrors && !errors_.contains(ino)) errors_.erase(errors_.begin());
  errors_[ino] = error.reason;
}

struct stat Tree::make_attributes(const Node& node, Ino ino, mode_t type, uint64_t size) const {
  struct stat status = dataset_.source().status();
  if (node.kind == NodeKind::group || node.kind == NodeKind::variable)
    if (const Result<struct stat> own = dataset_.source().status_of(node.object)) status = *own;
  const mode_t allowed = status.st_mode & (read_only_ ? 0444 : 0666);
  status.st_ino = ino;
  status.st_mode = type | (S_ISDIR(type) ? allowed | (allowed & 0444) >> 2 : S_ISLNK(type) ? 0777 : allowed);
  status.st_nlink = S_ISDIR(type) ? 2 : 1;
  status.st_size = static_cast<off_t>(size);
  status.st_blocks = static_cast<blkcnt_t>(blocks_of(size));
  status.st_blksize = kBlockSize;
  apply_times(status);
  return status;
}

void Tree::apply_times(struct stat& status) const {
  const std::lock_guard lock(times_mutex_);
  const auto found = times_.find(status.st_ino);
  if (found == times_.end()) return;
  if (found->second.accessed) status.st_atim = *found->second.accessed;
  if (found->second.modified) status.st_mtim = status.st_ctim = *found->second.modified;
}

Result<struct stat> Tree::lookup(Ino parent, std::string_view name) {
  ++stats_.lookups;
  CODECFS_ASSIGN(const Place place, current_place_of(parent));
  const Node& node = *place.node;
  if (place.file != FileKind::itself || node.kind == NodeKind::file)
    return fail(ENOTDIR, "{}: not a directory", node.path);
  if (const std::optional<FileKind> file = metadata_named(node, name)) return metadata_attributes(node, *file);
  if (node.kind == NodeKind::control) return name == "view" ? attributes(nodes_.views().ino()) : not_there();
  if (node.kind == NodeKind::views) {
    const std::optional<View> view = view_named(name);
    return view ? attributes(nodes_.view_entry(*view).ino()) : not_there();
  }
  if (parent == kRootIno && name == ".codecfs") return attributes(nodes_.control().ino());

  if (node.kind == NodeKind::variable && !shows_arrays(node.view)) {
    CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
    const std::optional<uint64_t> number = view->facts->grid.number_of(name);
    if (number) return chunk_attributes(node, view, *number);
  }
  if (const std::optional<Ino> scratch = scratch_.find(node.ino(), name)) return attributes(*scratch);
  if (node.kind == NodeKind::variable) return not_there();
  const Node* child = nullptr;
  {
    const std::shared_lock names(names_);
    CODECFS_ASSIGN(const Entry entry,
                   shows_arrays(node.view) ? array_entry(node, name) : dataset_.source().find(node.object, name));
    CODECFS_ASSIGN(child, nodes_.child(node, entry));
  }
  return child_attributes(*child);
}

bool Tree::remembers_absence(Ino parent, std::string_view name) const {
  const Result<Place> place = nodes_.at(parent);
  if (coherent_ || (place && place->node->kind == NodeKind::folder)) return false;
  if (read_only_) return true;
  if (!place || metadata_named(*place->node, name)) return false;
  // What comes into being in one view is told to those who know it in another, not who knows that it is absent.
  if (place->node->view != nodes_.shown()) return false;
  // A group may become a variable, which has files of its own.
  const std::span<const NamedFile> files = files_of(NodeKind::variable);
  if (std::ranges::find(files, name, &NamedFile::name) != files.end()) return false;
  // A chunk may come into being with a .zarray or another shape, and be shown without being written.
  const bool like_chunk = name.find_first_not_of("0123456789.") == name.npos;
  return !like_chunk || (place->node->kind == NodeKind::variable && !state_of(*place->node).fresh);
}

std::optional<FileKind> Tree::metadata_named(const Node& node, std::string_view name) {
  for (const NamedFile& file : files_of(node))
    if (file.name == name) return file.kind;
  if (node.kind == NodeKind::group && !shows_arrays(node.view) && name == ".zarray") return FileKind::zarray;
  return std::nullopt;
}

Result<struct stat> Tree::child_attributes(const Node& child) {
  if (child.kind == NodeKind::variable && shows_arrays(child.view)) return array_attributes(child);
  return attributes(child.ino());
}

Result<struct stat> Tree::attributes(Ino ino) {
  CODECFS_ASSIGN(const Place place, current_place_of(ino));
  const Node& node = *place.node;
  if (node.kind == NodeKind::scratch) {
    CODECFS_ASSIGN(struct stat status, scratch_.status(ino));
    status.st_uid = dataset_.source().status().st_uid;
    status.st_gid = dataset_.source().status().st_gid;
    status.st_blksize = kBlockSize;
    apply_times(status);
    return status;
  }
  if (place.file == FileKind::chunk) {
    CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
    return chunk_attributes(node, view, place.chunk);
  }
  if (place.file != FileKind::itself) return metadata_attributes(node, place.file);
  if (node.kind == NodeKind::folder || node.kind == NodeKind::file) return plain_attributes(node);
  if (node.kind == NodeKind::symlink) {
    CODECFS_ASSIGN(const std::string target, link_target(ino));
    return make_attributes(node, ino, S_IFLNK, target.size());
  }
  return make_attributes(node, ino, S_IFDIR, 0);
}

Result<struct stat> Tree::attributes_of_removed(Ino ino, const OpenFile& file) {
  CODECFS_ASSIGN(const Place place, place_of(ino));
  if (place.file != FileKind::chunk || file.chunk.variable == nullptr) return not_there();
  const Variable& variable = *file.chunk.variable->facts;
  struct stat status = make_attributes(*place.node, ino, S_IFREG, variable.chunk_bytes.value_or(0));
  status.st_nlink = 0;
  return status;
}

Result<std::string> Tree::link_target(Ino ino) {
  CODECFS_ASSIGN(const Place place, place_of(ino));
  if (place.node->kind != NodeKind::symlink) return fail(EINVAL, "{}: not a symlink", place.node->path);
  return shows_arrays(place.node->view) ? array_link_target(*place.node) : place.node->target;
}

Result<struct stat> Tree::metadata_attributes(const Node& node, FileKind file) {
  if (node.kind == NodeKind::control) return make_attributes(node, node.ino(file), S_IFREG, 0);
  if (file == FileKind::array) return array_attributes(node);
  if (const std::shared_ptr<Draft> draft = drafts_.find(node.ino(file)))
    if (const std::optional<uint64_t> size = draft->shown_size())
      return make_attributes(node, node.ino(file), S_IFREG, *size);
  if (state_of(node).hidden.contains(file)) return not_there();
  CODECFS_ASSIGN(const Text text, text_of(node, file));
  return make_attributes(node, node.ino(file), S_IFREG, text->size());
}

bool Tree::shows_absent(const Node& node, const VariableView& view) const {
  if (!view.shows_absent_chunks()) return false;
  const DirectoryState state = state_of(node);
  return !state.fresh && !is_condemned(node, state);
}

Result<struct stat> Tree::chunk_attributes(const Node& node, const VariableViewPtr& view, uint64_t number) {
  const Variable& variable = *view->facts;
  if (is_unlinked(node, number)) return not_there();
  if (node.view == View::encoded) return encoded_attributes(node, view, number);
  CODECFS_ASSIGN(const Ino ino, nodes_.chunk_ino(node, number, variable.grid.count()));
  if (const std::optional<uint64_t> size = write_back_.size(ino)) {
    struct stat status = make_attributes(node, ino, S_IFREG, *size);
    status.st_blocks = std::max<blkcnt_t>(status.st_blocks, 1);
    return status;
  }
  // Whatever the source has in its place: a name that was removed is gone.
  if (is_removed(node, number, ino)) return not_there();
  CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(node.object, number));
  if (!info.stored && !shows_absent(node, *view)) return not_there();

  uint64_t size = 0;
  if (variable.chunk_bytes) {
    size = *variable.chunk_bytes;
  } else if (!variable.unreadable) {
    // Only decoding tells the size. A chunk that cannot be decoded is shown all the same; opening it says why.
    const Result<ChunkPtr> chunk = decoded({ino, node.object, number, view});
    if (chunk) size = (*chunk)->size();
  }
  struct stat status = make_attributes(node, ino, S_IFREG, size);
  if (info.stored) {
    status.st_blocks = static_cast<blkcnt_t>(std::max<uint64_t>(1, blocks_of(info.stored_size)));
  } else {
    const bool zeros = std::ranges::all_of(variable.fill, [](std::byte byte) { return byte == std::byte{0}; });
    status.st_blocks = zeros ? 0 : 1;  // 0 would tell tar that there is nothing but zeros
  }
  return status;
}

Result<Text> Tree::text_of(const Node& node, FileKind file) {
  switch (file) {
    case FileKind::filters: return std::make_shared<const std::string>(filters::filter_table());
    case FileKind::log: return std::make_shared<const std::string>(log::recent());
    case FileKind::stats: return std::make_shared<const std::string>(stats_text());
    case FileKind::zgroup: return Dataset::zgroup();
    case FileKind::zmetadata:
      if (coherent_ && is_due(~node.object)) {  // it tells of all that is below
        dataset_.forget(node.object);
        encoded_zmetadata_.clear();
      }
      return zmetadata_of(node);
    default: break;
  }
  if (node.kind == NodeKind::group && file == FileKind::zattrs) return dataset_.zattrs(node.object);
  if (node.kind != NodeKind::variable) return not_there();
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  switch (file) {
    case FileKind::zarray: {
      if (node.view == View::decoded) return view->zarray;
      CODECFS_ASSIGN(const EncodedFormPtr form, encoded_form(node));
      return form->zarray;
    }
    case FileKind::zattrs: {
      CODECFS_ASSIGN(const VariablePtr variable, dataset_.described(node.object));
      return std::make_shared<const std::string>(file_text(zattrs_json(*variable)));
    }
    case FileKind::codecs: return view->codecs;
    case FileKind::filter:
      if (view->filter) return view->filter;
      return not_there();  // _Codecs tells the chain; no spec can
    default: return not_there();
  }
}

std::string Tree::stats_text() {
  std::string text =
      stats_.print() + fmt::format("chunks_converted {}\nconversions_ahead {}\n",
                                   conversion_stats_.chunks_decoded.load(), conversion_stats_.decodes_ahead.load());
  uint64_t done = 0;
  uint64_t total = 0;
  {
    const std::lock_guard lock(states_mutex_);
    for (const auto& [variable, progress] : recoding_) {
      done += progress->done;
      total += progress->total;
    }
  }
  text += fmt::format("recode_chunks_done {}\nrecode_chunks_total {}\nreclaimable_bytes {}\n", done, total,
                      dataset_.source().reclaimable_bytes());
  return text;
}

Result<std::unique_ptr<OpenFile>> Tree::open(Ino ino, bool for_writing, bool truncate) {
  ++stats_.opens;
  KernelPages::Writer writer;
  if (for_writing) writer = KernelPages::Writer(kernel_pages_, ino);
  CODECFS_ASSIGN(std::unique_ptr<OpenFile> file, open_file(ino, for_writing, truncate));
  file->pages = std::move(writer);
  return file;
}

/// Whether a metadata file is open for writing, or what it tells has just changed.
bool Tree::is_in_motion(Ino ino) {
  constexpr std::chrono::seconds kMotion{2};
  return drafts_.find(ino) != nullptr || std::chrono::steady_clock::now() - metadata_changed_at_.load() < kMotion;
}

Result<std::unique_ptr<OpenFile>> Tree::open_file(Ino ino, bool for_writing, bool truncate) {
  // Under the number that it had before it was renamed to a chunk, the kernel would keep pages that nobody tells it of.
  // It looks the name up again then.
  if (scratch_.became(ino)) return std::unexpected(Error{ESTALE, {}});
  CODECFS_ASSIGN(const Place place, current_place_of(ino));
  const Node& node = *place.node;
  if (node.kind == NodeKind::file) return open_plain(node, for_writing);
  if (place.file == FileKind::itself) return fail(EISDIR, "{}: is a directory", node.path);
  if (for_writing && read_only_) return fail(EROFS, "{}: this mount is read-only", node.path);
  auto file = std::make_unique<OpenFile>();
  if (node.kind == NodeKind::scratch) {
    file->scratch = ino;
    file->writer = for_writing;
    if (truncate) CODECFS_TRY(scratch_.resize(ino, 0));
    return file;
  }
  if (place.file == FileKind::array) return open_array(node, for_writing, truncate);
  if (place.file != FileKind::chunk) {
    if (for_writing && node.kind == NodeKind::control) return fail(EPERM, "{}: is only read", node.path);
    if (for_writing) {
      const Result<Text> text = truncate ? Result<Text>(nullptr) : text_of(node, place.file);
      file->draft = drafts_.open(node.ino(place.file), text && *text ? **text : "", false);
      if (truncate) CODECFS_TRY(file->draft->resize(0));
      return file;
    }
    CODECFS_ASSIGN(file->snapshot, take_snapshot(ino));
    // Any change anywhere is one of .zmetadata, and may come between the kernel's asking for its length and for its
    // text.
    const bool tells_of_all = place.file == FileKind::zmetadata && !read_only_;
    file->live = node.kind == NodeKind::control || coherent_ || tells_of_all || is_in_motion(node.ino(place.file));
    return file;
  }
  // The number that the kernel knows it by may be that of a scratch file, or of another view.
  CODECFS_ASSIGN(const ChunkPlace chunk, chunk_place(node, place.chunk));
  if (coherent_) open_afresh(chunk, *file);
  if (node.view == View::encoded) return open_encoded(node, chunk, for_writing, truncate);
  const Variable& variable = *chunk.variable->facts;
  if (variable.unreadable) return std::unexpected(*variable.unreadable);
  file->chunk = chunk;
  if (for_writing) {
    CODECFS_TRY(dataset_.source().variable_writable(node.object));
    if (truncate) {
      CODECFS_TRY(write_back_.resize(file->chunk, 0));
      chunk_changed(node, chunk.number);
    }
    file->writer = true;
    write_back_.open_writer(chunk.key);
  } else if (!variable.chunk_bytes && !write_back_.size(chunk.key)) {
    // The size that was told at lookup is that of these bytes: keep them while the file is open.
    CODECFS_ASSIGN(file->snapshot, take_snapshot(ino));
  }
  if (!for_writing) opened_to_read(node, chunk);
  return file;
}

/// All of a file that is made as a whole.
Result<Slice> Tree::make_whole(Ino ino) {
  CODECFS_ASSIGN(const Place place, place_of(ino));
  const Node& node = *place.node;
  if (place.file != FileKind::chunk) {
    CODECFS_ASSIGN(const Text text, text_of(node, place.file));
    return Slice{std::as_bytes(std::span(*text)), text};
  }
  CODECFS_ASSIGN(const ChunkPlace chunk, chunk_place(node, place.chunk));
  ChunkPtr bytes;
  if (node.view == View::encoded) {
    CODECFS_ASSIGN(bytes, encoded(node, chunk));
  } else if (const auto edited = write_back_.content(chunk.key)) {
    return Slice{edited->bytes->bytes().first(edited->size), edited->bytes};
  } else {
    CODECFS_ASSIGN(bytes, decoded(chunk));
  }
  return Slice{bytes->bytes(), bytes};
}

Result<std::shared_ptr<Snapshot>> Tree::take_snapshot(Ino ino) {
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->ino = ino;
  snapshot->changes = changes();
  CODECFS_ASSIGN(snapshot->held, make_whole(ino));
  return snapshot;
}

/// As it is now: the kernel was told to forget what it had, and must not be given that again.
Result<Slice> Tree::look_at(Snapshot& snapshot) {
  const std::lock_guard lock(snapshot.mutex);
  const uint64_t changes = this->changes();
  if (changes == snapshot.changes) return snapshot.held;
  Result<Slice> now = make_whole(snapshot.ino);
  // What is gone meanwhile is read on as it was.
  if (!now && now.error().code != ENOENT && now.error().code != ESTALE) return now;
  if (now) snapshot.held = *std::move(now);
  snapshot.changes = changes;
  return snapshot.held;
}

Result<Slice> Tree::read(const OpenFile& file, off_t offset, size_t size) {
  ++stats_.reads;
  const auto part = [&](Bytes bytes, std::shared_ptr<const void> owner) {
    const size_t from = std::min(bytes.size(), static_cast<size_t>(offset));
    bytes = bytes.subspan(from, std::min(size, bytes.size() - from));
    stats_.bytes_read += bytes.size();
    return Slice{bytes, std::move(owner)};
  };
  if (file.array) return read_array(*file.array, static_cast<uint64_t>(offset), size);
  if (file.plain) {
    CODECFS_ASSIGN(Slice slice, read_plain(file, static_cast<uint64_t>(offset), size));
    stats_.bytes_read += slice.bytes.size();
    return slice;
  }
  if (file.snapshot && file.live) return part(file.snapshot->held.bytes, file.snapshot->held.owner);
  if (file.snapshot) {
    CODECFS_ASSIGN(const Slice whole, look_at(*file.snapshot));
    return part(whole.bytes, whole.owner);
  }
  if (file.draft) {
    const auto text = std::make_shared<const std::string>(file.draft->text());
    return part(std::as_bytes(std::span(*text)), text);
  }
  CODECFS_ASSIGN(const ChunkPlace chunk, chunk_of(file));
  if (chunk.variable == nullptr) {
    CODECFS_ASSIGN(std::string bytes, scratch_.read(file.scratch, static_cast<uint64_t>(offset), size));
    const auto owner = std::make_shared<const std::string>(std::move(bytes));
    stats_.bytes_read += owner->size();
    return Slice{std::as_bytes(std::span(*owner)), owner};
  }
  if (const std::optional<WriteBack::Content> edited = write_back_.content(chunk.key))
    return part(edited->bytes->bytes().first(edited->size), edited->bytes);
  Result<ChunkPtr> stored = decoded(chunk);
  // Removed since it was opened: it reads as fill.
  if (!stored && stored.error().code == ENOENT) stored = base_of(chunk);
  CODECFS_ASSIGN(const ChunkPtr bytes, std::move(stored));
  Slice slice = part(bytes->bytes(), bytes);
  cache_.served(chunk.key, slice.bytes.size());
  return slice;
}

uint64_t Tree::decoding_bytes(const Variable& variable) {
  // A chunk takes its decoded bytes and, while a filter works, as many again.
  return 2 * variable.chunk_bytes.value_or(uint64_t{1} << 20);
}

Result<Buffer> Tree::decode(const ChunkPlace& chunk) {
  CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(chunk.object, chunk.number));
  stats_.bytes_stored += info.stored_size;
  return dataset_.source().read_chunk(chunk.object, chunk.number);
}

Result<ChunkPtr> Tree::decoded(const ChunkPlace& chunk) {
  Result<ChunkPtr> bytes = cache_.get(chunk.key, decoding_bytes(*chunk.variable->facts), [&] { return decode(chunk); });
  if (bytes || bytes.error().code != ENOENT || !chunk.variable->shows_absent_chunks()) return bytes;
  return base_of(chunk);
}

ChunkPtr Tree::fetch_decoded(const ChunkPlace& chunk) {
  if (write_back_.size(chunk.key)) return nullptr;
  const Result<ChunkInfo> info = dataset_.source().locate(chunk.object, chunk.number);
  if (!info || !info->stored) return nullptr;
  return cache_.fetch(chunk.key, decoding_bytes(*chunk.variable->facts), [&] { return decode(chunk); });
}

Result<ChunkPtr> Tree::base_of(const ChunkPlace& chunk) {
  CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(chunk.object, chunk.number));
  const uint64_t estimate = decoding_bytes(*chunk.variable->facts);
  if (info.stored) {
    Result<ChunkPtr> bytes = cache_.get(chunk.key, estimate, [&] { return decode(chunk); });
    if (bytes || bytes.error().code != ENOENT) return bytes;
    // Removed meanwhile.
  }
  // All absent chunks of a variable are one fill chunk, known by the inode number of its directory.
  CODECFS_ASSIGN(const Place place, place_of(chunk.key));
  return cache_.get(place.node->ino(), estimate, [&] { return make_fill_chunk(*chunk.variable->facts); });
}

std::vector<FilterStage> Tree::arranged(std::vector<FilterStage> chain, const Variable& variable,
                                        std::string_view path) {
  chain = filters::arrange_chain(std::move(chain));
  if (chains_for_numcodecs(path) && filters::shuffle_goes_first(chain, variable.type.size)) {
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

std::optional<std::vector<FilterStage>> Tree::chain_of_rules(const std::string& path, const Variable& variable) {
  // As in nccopy, a scalar is left alone: it has no chunks to filter in HDF5.
  if (rules_.empty() || variable.grid.rank() == 0) return std::nullopt;
  std::optional<std::vector<FilterStage>> chain = rules_.resolve(full_name(path));
  if (!chain) return std::nullopt;
  return arranged(*std::move(chain), variable, path);
}

std::optional<std::string> Tree::filter_out(const Node& node, const Variable& variable) {
  const std::optional<std::vector<FilterStage>> chain = chain_of_rules(node.path, variable);
  if (!chain) return std::nullopt;
  const Result<std::string> spec = filters::print_filter_spec(*chain);
  if (!spec) return std::nullopt;
  return spec->empty() ? "none" : *spec;
}

void Tree::check_rules() {
  for (const std::string& name : rules_.names()) {
    const std::string problem = why_no_variable(dataset_.source(), name);
    if (!problem.empty()) log::warning("filter rule for {}: {}; the rule does nothing", name, problem);
  }
}

Result<std::vector<Xattr>> Tree::make_xattrs(const Place& place) {
  const Node& node = *place.node;
  if (place.file == FileKind::chunk) {
    CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(node.object, place.chunk));
    return chunk_xattrs(info);
  }
  if (is_variable(place)) {
    CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
    CODECFS_ASSIGN(const VariablePtr described, dataset_.described(node.object));
    return variable_xattrs(*view, described->attributes, filter_out(node, *view->facts));
  }
  if (place.file == FileKind::itself && node.kind == NodeKind::group) {
    CODECFS_ASSIGN(const std::vector<Attribute> attributes, dataset_.source().group_attributes(node.object));
    return group_xattrs(attributes, state_of(node).filter);
  }
  return std::vector<Xattr>();
}

Result<XattrView> Tree::xattrs(Ino ino) {
  CODECFS_ASSIGN(const Place place, place_of(ino));
  const uint64_t changes = dataset_.changes();
  XattrView view{xattrs_.get(ino), {}};
  if (!view.stored) {
    Result<std::vector<Xattr>> made = make_xattrs(place);
    if (!made) note_error(ino, made.error());
    view.stored = std::make_shared<const std::vector<Xattr>>(made ? std::move(*made) : std::vector<Xattr>());
    uint64_t bytes = 0;
    for (const Xattr& xattr : *view.stored) bytes += sizeof xattr + xattr.name.size() + xattr.value.size();
    if (made && place.file != FileKind::chunk) xattrs_.put(ino, view.stored, bytes);
    if (dataset_.changes() != changes) xattrs_.erase(ino);
  }
  if (is_variable(place)) {
    const std::lock_guard lock(states_mutex_);
    if (const auto found = recoding_.find(place.node->object); found != recoding_.end())
      view.live.push_back(
          {"user._Progress", fmt::format("{}/{} chunks", found->second->done.load(), found->second->total.load())});
  }
  if (ino == kRootIno && view.live.empty()) {
    // All that goes on, as it is no variable's alone: an archive that is written anew, a log that is brought into a
    // file.
    if (std::string lines = LongWork::under_way(); !lines.empty())
      view.live.push_back({"user._Progress", std::move(lines)});
  }
  const std::lock_guard lock(errors_mutex_);
  if (const auto found = errors_.find(ino); found != errors_.end())
    view.live.push_back({"user._Error", found->second.substr(0, kMaxXattrValue)});
  return view;
}

struct statvfs Tree::filesystem() const {
  struct statvfs numbers{};
  numbers.f_namemax = 255;
  if (read_only_) {
    // Like any read-only image: as large as its source, and full.
    numbers.f_bsize = numbers.f_frsize = 4096;
    numbers.f_blocks = (static_cast<uint64_t>(dataset_.source().status().st_size) + 4095) / 4096;
    numbers.f_flag = ST_RDONLY;
  } else {
    // What is free where the source lies, in stored bytes.
    numbers = dataset_.source().filesystem();
    numbers.f_namemax = 255;
  }
  return numbers;
}

}  // namespace codecfs::fs
