#include "fs/views/xattr_control.h"

#include <algorithm>

#include "backends/open/unsupported_format.h"
#include "base/log.h"
#include "base/progress_reporter.h"
#include "base/utf8.h"
#include "fs/nodes/metadata_files.h"
#include "fs/nodes/xattrs.h"
#include "model/json.h"

namespace codecfs::fs {
namespace {
constexpr std::string_view kUser = "user.";

/// Whether the file stands for a variable as a whole.
bool is_variable(const Place& place) {
  if (place.node->kind != NodeKind::variable) return false;
  return place.file == FileKind::itself || place.file == FileKind::array;
}

/// Facts about how a chunk is stored.
bool describes_chunk(std::string_view name) {
  return name == "user._StoredSize" || name == "user._Offset" || name == "user._FilterMask";
}

/// Facts about a variable that were decided when it was made.
bool is_fixed(std::string_view plain) {
  return plain == "_Storage" || plain == "_ChunkSizes" || plain == "_Endianness" || plain == "_MaxShape" ||
         plain == "_FilterOut" || plain == "_Type";
}

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

Result<XattrView> XattrControl::all(Ino ino) {
  const uint64_t changes = mount_.dataset.changes();
  CODECFS_ASSIGN(const Place place, mount_.tree.place_of(ino));
  XattrView view{mount_.xattrs.get(ino), {}, {}};
  if (!view.stored) {
    Result<std::vector<Xattr>> made = make_xattrs(place, view.incomplete);
    if (!made) view.incomplete = made.error();
    if (view.incomplete) note_incomplete(ino, *view.incomplete);
    view.stored = std::make_shared<const std::vector<Xattr>>(made ? std::move(*made) : std::vector<Xattr>());
    uint64_t bytes = 0;
    for (const Xattr& xattr : *view.stored) bytes += sizeof xattr + xattr.name.size() + xattr.value.size();
    if (!view.incomplete && place.file != FileKind::chunk)
      mount_.xattrs.put_if(ino, view.stored, bytes, [&] { return mount_.dataset.changes() == changes; });
  }
  CODECFS_ASSIGN(view.live, live(ino));
  return view;
}

// Programs read one attribute after another, of which each call would add the same line to the log.
void XattrControl::note_incomplete(Ino ino, const Error& error) {
  const auto known = mount_.errors.find(ino);
  if (known == nullptr || known->reason != error.reason) mount_.note_error(ino, error);
}

Result<std::vector<Xattr>> XattrControl::live(Ino ino) {
  CODECFS_ASSIGN(const Place place, mount_.tree.place_of(ino));
  std::vector<Xattr> live;
  if (is_variable(place))
    if (const std::optional<Recodings::Chunks> chunks = mount_.recodings.of(place.node->object))
      live.push_back({"user._Progress", fmt::format("{}/{} chunks", chunks->done, chunks->total)});
  if (ino == kRootIno && live.empty()) {
    // All that goes on, as it is no variable's alone: an archive that is written anew, a log that is brought into a
    // file.
    if (std::string lines = ProgressReporter::under_way(); !lines.empty())
      live.push_back({"user._Progress", std::move(lines)});
  }
  if (ino == kRootIno)
    if (std::string paths = not_stored_text(mount_.files_not_stored()); !paths.empty())
      live.push_back({"user._NotStored", std::move(paths)});
  if (const auto error = mount_.errors.find(ino)) {
    live.push_back({"user._Error", error->reason.substr(0, kMaxXattrValue)});
    live.push_back({"user._ErrorTime", text_of_time(error->time)});
  } else if (std::optional<std::string> reason = why_no_dataset(*place.node)) {
    live.push_back({"user._Error", std::move(*reason)});
  }
  return live;
}

/// Why something in a mounted folder that looks like a dataset is shown as it is.
std::optional<std::string> XattrControl::why_no_dataset(const Node& node) {
  Source& source = mount_.dataset.source();
  std::optional<std::string> reason;
  if (node.kind == NodeKind::file) {
    if (const Result<UniqueFd> file = source.open_file(node.object); file)
      reason = unsupported_format(file->get(), node.path);
  } else if (node.kind == NodeKind::folder && !node.is_root()) {
    const Result<std::vector<Entry>> entries = source.list(node.object);
    if (entries && std::ranges::find(*entries, "attributes.json", &Entry::name) != entries->end())
      reason = "is an N5 store, and of directories only Zarr is read";
  }
  if (reason) reason = fmt::format("{}: {}", node.path, *reason);
  return reason;
}

Result<> XattrControl::set(Ino ino, std::string_view name, std::string_view value, XattrMode mode,
                           const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place place, mount_.tree.place_of(ino));
  const Node& node = *place.node;
  if (!name.starts_with(kUser)) return std::unexpected(Error{EOPNOTSUPP, {}});
  if (mount_.options.read_only) return fail(EROFS, "{}: this mount is read-only", node.path);
  // cp --preserve=xattr fails if one attribute cannot be set.
  const bool of_chunk = place.file == FileKind::chunk || node.kind == NodeKind::scratch;
  if (of_chunk && describes_chunk(name)) return {};
  const bool whole = place.file == FileKind::itself || place.file == FileKind::array;
  if (!whole || (node.kind != NodeKind::group && node.kind != NodeKind::variable))
    return fail(EPERM, "{}: only groups and variables have attributes that can be changed", node.path);
  const std::string_view plain = name.substr(kUser.size());
  if (!is_utf8(name) || (!is_utf8(value) && !is_special_xattr(name)))
    return fail(EINVAL, "{}: the names and texts of attributes are UTF-8; `iconv -f latin1 -t utf8` converts Latin-1",
                node.path);
  CODECFS_ASSIGN(const XattrView view, all(ino));
  if (view.incomplete && !is_special_xattr(name)) return std::unexpected(*view.incomplete);
  const auto now = std::ranges::find(*view.stored, name, &Xattr::name);
  if (mode == XattrMode::create && now != view.stored->end()) return std::unexpected(Error{EEXIST, {}});
  if (mode == XattrMode::replace && now == view.stored->end()) return std::unexpected(Error{ENODATA, {}});
  // cp -a and cp --preserve=xattr write all attributes of their source, of which .zattrs may have set some.
  if (plain != kFilterName && plain != kCodecsName && now != view.stored->end() && now->value == value) return {};
  if (node.kind == NodeKind::variable && is_fixed(plain) && mount_.tree.overlay.state_of(node).made_here) {
    log::info("{}: {} is not changed to {}", node.path, plain, value);
    return {};
  }
  if (node.kind == NodeKind::group && (plain == kFilterName || plain == kCodecsName))
    return filters_.set_default_chain(node, plain, value);
  if (is_special_xattr(name)) {
    if (node.kind == NodeKind::variable) {
      CODECFS_TRY(filters_.set_special(node, plain, value, cancelled));
      mount_.tree.overlay.show(node, {FileKind::filter, FileKind::codecs});
      return {};
    }
    return fail(EPERM, "{}: {} is not for groups", node.path, plain);
  }

  const SharedLock layout(mount_.tree.layout);
  std::vector<Attribute> attributes;
  if (node.kind == NodeKind::variable) {
    CODECFS_ASSIGN(const VariablePtr variable, mount_.dataset.described(node.object));
    attributes = variable->attributes;
  } else {
    CODECFS_ASSIGN(attributes, mount_.dataset.source().group_attributes(node.object));
  }
  const auto stands = std::ranges::find(attributes, plain, &Attribute::name);
  const Attribute wanted{std::string(plain),
                         attribute_value(value, stands == attributes.end() ? nullptr : &*stands->value)};
  CODECFS_TRY(mount_.dataset.source().set_attributes(node.object, std::span(&wanted, 1), {}));
  mount_.chunks.write_back.note_change();
  mount_.tree.overlay.show(node, {FileKind::zattrs, FileKind::zarr_json});
  notifier_.metadata_changed(node);
  return {};
}

Result<> XattrControl::remove(Ino ino, std::string_view name, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place place, mount_.tree.place_of(ino));
  const Node& node = *place.node;
  if (name == "user._Error") {
    if (!mount_.errors.remove(ino)) return std::unexpected(Error{ENODATA, {}});
    return {};
  }
  if (mount_.options.read_only) return fail(EROFS, "{}: this mount is read-only", node.path);
  CODECFS_ASSIGN(const XattrView view, all(ino));
  if (view.incomplete && !is_special_xattr(name)) return std::unexpected(*view.incomplete);
  if (std::ranges::find(*view.stored, name, &Xattr::name) == view.stored->end())
    return std::unexpected(Error{ENODATA, {}});
  if (place.file != FileKind::itself && place.file != FileKind::array)
    return fail(EPERM, "{}: cannot be changed", node.path);
  const std::string plain(name.substr(kUser.size()));
  if (node.kind == NodeKind::group && (plain == kFilterName || plain == kCodecsName)) {
    filters_.remove_default_chain(node);
    return {};
  }
  if (is_special_xattr(name)) return filters_.remove_special(node, plain, cancelled);
  const SharedLock layout(mount_.tree.layout);
  CODECFS_TRY(mount_.dataset.source().set_attributes(node.object, {}, std::span(&plain, 1)));
  mount_.chunks.write_back.note_change();
  notifier_.metadata_changed(node);
  return {};
}

Result<std::vector<Xattr>> XattrControl::make_xattrs(const Place& place, std::optional<Error>& unreadable) {
  const Node& node = *place.node;
  if (place.file == FileKind::chunk) {
    CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
    if (node.form().shows_shards(*view->facts)) {
      CODECFS_ASSIGN(const auto shard, mount_.dataset.source().open_shard(node.object, place.chunk));
      return chunk_xattrs({.stored = shard != nullptr, .stored_size = shard ? shard->size() : 0, .offset = {}});
    }
    CODECFS_ASSIGN(const ChunkInfo info, mount_.dataset.source().locate(node.object, place.chunk));
    return chunk_xattrs(info);
  }
  if (is_variable(place)) {
    CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
    CODECFS_ASSIGN(const VariablePtr described, mount_.dataset.described(node.object));
    unreadable = described->unreadable_attributes;
    return variable_xattrs(*view, described->attributes, rules_.spec_for(node, *view->facts), node.form().format());
  }
  if (place.file == FileKind::itself && node.kind == NodeKind::group) {
    Result<std::vector<Attribute>> attributes = mount_.dataset.source().group_attributes(node.object);
    if (!attributes) unreadable = std::move(attributes.error());
    return group_xattrs(attributes ? *attributes : std::vector<Attribute>(), mount_.tree.overlay.state_of(node).chain,
                        node.form().format());
  }
  return std::vector<Xattr>();
}

}  // namespace codecfs::fs
