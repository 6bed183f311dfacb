// Lookup and attributes.

#include "fs/namespace/tree.h"

#include <algorithm>

#include "base/log.h"
#include "base/progress_reporter.h"
#include "filters/core/filter_table.h"
#include "fs/views/metadata_files.h"
#include "model/json.h"

namespace codecfs::fs {
namespace {

// What cat and cp take anyway. With more they map their buffer anew for each file, and clearing its pages takes longer
// than reading into them.
constexpr blksize_t kBlockSize = 128 << 10;  // bytes

/// No reason: a name that is not there is an answer, not a failure.
std::unexpected<Error> not_there() { return std::unexpected(Error{ENOENT, {}}); }

uint64_t blocks_of(uint64_t bytes) { return (bytes + 511) / 512; }

/// Whether the file stands for a variable as a whole.
bool is_variable(const Place& place) {
  if (place.node->kind != NodeKind::variable) return false;
  return place.file == FileKind::itself || place.file == FileKind::array;
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
      mountpoint_(options.mountpoint),
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
  const std::optional<Ino> chunk = scratch_.promoted_to(ino);
  return chunk ? nodes_.at(*chunk) : place;
}

Result<ChunkPlace> Tree::chunk_place(const Node& node, uint64_t number) {
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  CODECFS_ASSIGN(const Ino key, nodes_.chunk_key(node, number, view->facts->grid.count()));
  return ChunkPlace{key, node.object, number, view};
}

void Tree::note_error(Ino ino, const Error& error, RequestKind kind) {
  if (error.reason.empty()) return;
  ++stats_.errors;
  log::error("{}", error.reason);
  errors_.failed(ino, kind, error.reason);
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
  times_.apply(status);
  return status;
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

bool Tree::remembers_absence(Ino parent, std::string_view name) {
  const Result<Place> place = nodes_.at(parent);
  if (coherent_ || (place && place->node->kind == NodeKind::folder)) return false;
  if (read_only_) return true;
  if (!place || metadata_named(*place->node, name)) return false;
  // A name that is created in one view is invalidated in the others, but not where the kernel knows it as absent.
  if (place->node->view != nodes_.shown()) return false;
  // A group may become a variable, which has files of its own.
  const std::span<const NamedFile> files = files_of(NodeKind::variable);
  if (std::ranges::find(files, name, &NamedFile::name) != files.end()) return false;
  // A chunk may come into being with a .zarray or another shape, and be shown without being written.
  const bool like_chunk = name.find_first_not_of("0123456789.") == name.npos;
  if (!like_chunk) return true;
  if (place->node->kind != NodeKind::variable || overlay_.state_of(*place->node).fresh) return false;
  const Result<VariableViewPtr> view = dataset_.variable(place->node->object);
  return view && !(*view)->shows_absent_chunks();
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
    times_.apply(status);
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
  if (const std::shared_ptr<StagedFile> staged = staged_files_.find(node.ino(file)))
    if (const std::optional<uint64_t> size = staged->shown_size())
      return make_attributes(node, node.ino(file), S_IFREG, *size);
  if (overlay_.state_of(node).hidden.contains(file)) return not_there();
  CODECFS_ASSIGN(const Text text, text_of(node, file));
  return make_attributes(node, node.ino(file), S_IFREG, text->size());
}

bool Tree::shows_absent(const Node& node, const VariableView& view) const {
  if (!view.shows_absent_chunks()) return false;
  const DirectoryState state = overlay_.state_of(node);
  return !state.fresh && !is_condemned(node, state);
}

Result<struct stat> Tree::chunk_attributes(const Node& node, const VariableViewPtr& view, uint64_t number) {
  const Variable& variable = *view->facts;
  if (overlay_.is_unlinked(node, number)) return not_there();
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
  const Recodings::Chunks recoding = recodings_.of_all();
  text += fmt::format("recode_chunks_done {}\nrecode_chunks_total {}\nreclaimable_bytes {}\n", recoding.done,
                      recoding.total, dataset_.source().reclaimable_bytes());
  return text;
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
    return group_xattrs(attributes, overlay_.state_of(node).filter);
  }
  return std::vector<Xattr>();
}

namespace {

/// One path a line; the last line says how many more there are.
std::string not_stored_text(const std::vector<std::string>& paths) {
  std::string text;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (text.size() + paths[i].size() > kMaxXattrValue / 2) return text + fmt::format("and {} more", paths.size() - i);
    text += paths[i] + "\n";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace

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
    if (made && place.file != FileKind::chunk)
      xattrs_.put_if(ino, view.stored, bytes, [&] { return dataset_.changes() == changes; });
  }
  if (is_variable(place))
    if (const std::optional<Recodings::Chunks> chunks = recodings_.of(place.node->object))
      view.live.push_back({"user._Progress", fmt::format("{}/{} chunks", chunks->done, chunks->total)});
  if (ino == kRootIno && view.live.empty()) {
    // All that goes on, as it is no variable's alone: an archive that is written anew, a log that is brought into a
    // file.
    if (std::string lines = ProgressReporter::under_way(); !lines.empty())
      view.live.push_back({"user._Progress", std::move(lines)});
  }
  if (ino == kRootIno)
    if (std::string paths = not_stored_text(files_not_stored()); !paths.empty())
      view.live.push_back({"user._NotStored", std::move(paths)});
  if (const auto error = errors_.find(ino)) {
    view.live.push_back({"user._Error", error->reason.substr(0, kMaxXattrValue)});
    view.live.push_back({"user._ErrorTime", text_of_time(error->time)});
  }
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
