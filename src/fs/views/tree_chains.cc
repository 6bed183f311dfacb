// The filter pipelines of variables, and extended attributes, which change them and all other attributes.

#include <algorithm>
#include <ranges>

#include "base/log.h"
#include "base/progress_reporter.h"
#include "filters/core/codec_json.h"
#include "filters/core/filter_spec.h"
#include "filters/core/parameter_limits.h"
#include "fs/namespace/tree.h"
#include "fs/views/metadata_files.h"
#include "model/json.h"

namespace codecfs::fs {
namespace {

constexpr std::string_view kUser = "user.";
constexpr std::string_view kFilter = "_Filter";
constexpr std::string_view kCodecs = "_Codecs";
// HDF5's ids of the filters that have special attributes.
constexpr uint32_t kDeflate = 1;
constexpr uint32_t kShuffle = 2;
constexpr uint32_t kFletcher32 = 3;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

std::unexpected<Error> fail_empty(std::string_view path) {
  return fail(EINVAL, "{}: an empty chain could be an accident; the word for no filters is none", path);
}

Result<std::vector<FilterStage>> parse_spec(std::string_view path, std::string_view spec) {
  spec = trimmed(spec);
  if (spec.empty()) return fail_empty(path);
  Result<std::vector<FilterStage>> chain = filters::parse_filter_spec(spec);
  if (!chain) return fail(chain.error().code, "{}: {}", path, chain.error().reason);
  return chain;
}

Result<std::vector<FilterStage>> parse_codecs(std::string_view path, std::string_view text, uint64_t item_size) {
  text = trimmed(text);
  if (text.empty()) return fail_empty(path);
  if (filters::is_none(text)) return std::vector<FilterStage>();
  const auto in_codecs = [&](const Error& error) { return fail(EINVAL, "{}: _Codecs: {}", path, error.reason); };
  const Result<Json> json = parse_json(text);
  if (!json) return in_codecs(json.error());
  if (!json->is_array()) return fail(EINVAL, "{}: _Codecs: not a list of codecs: [{{\"id\": ...}}, ...]", path);
  auto chain = filters::parse_zarr_codecs(Json(), json->empty() ? Json() : *json, item_size);
  if (!chain) return in_codecs(chain.error());
  return chain;
}

/// ENOENT and EINVAL, see check_new_chain().
Result<> check_new(std::string_view path, std::span<const FilterStage> chain, uint64_t item_size,
                   std::span<const FilterStage> stored = {}) {
  const Result<> checked = filters::check_new_chain(chain, item_size, stored);
  if (!checked) return fail(checked.error().code, "{}: {}", path, checked.error().reason);
  return {};
}

Result<bool> parse_switch(std::string_view value) {
  value = trimmed(value);
  if (value == "true" || value == "1") return true;
  if (value == "false" || value == "0") return false;
  return fail(EINVAL, "\"{}\" is neither true nor false", value);
}

/// The chain with a filter put in, with new parameters, or taken out.
std::vector<FilterStage> with_filter(std::vector<FilterStage> chain, uint32_t id, bool wanted,
                                     std::vector<uint32_t> parameters = {}) {
  const auto found = std::ranges::find(chain, id, &FilterStage::id);
  if (!wanted) {
    if (found != chain.end()) chain.erase(found);
    return chain;
  }
  if (found != chain.end()) {
    if (!parameters.empty()) *found = {.id = id, .parameters = std::move(parameters), .codec = {}, .name = {}};
    return chain;
  }
  chain.push_back({.id = id, .parameters = std::move(parameters), .codec = {}, .name = {}});
  return chain;
}

}  // namespace

/// The filter pipeline in a file that was written before the .zarray, as cp -r may do.
Result<std::optional<std::vector<FilterStage>>> Tree::spooled_chain(const Node& group, const Variable& variable) {
  for (const std::string_view name : {kCodecs, kFilter}) {
    if (!scratch_.find(group.ino(), name)) continue;
    CODECFS_ASSIGN(const std::string text, scratch_.seal(group.ino(), name));
    scratch_.unseal(group.ino(), name);
    if (trimmed(text).empty()) continue;
    CODECFS_ASSIGN(std::vector<FilterStage> chain,
                   name == kFilter ? parse_spec(group.path, text) : parse_codecs(group.path, text, variable.type.size));
    return chain;
  }
  return std::nullopt;
}

/// The filter pipeline of a new variable.
Result<std::vector<FilterStage>> Tree::chain_for_new(const Node& node, const Variable& variable) {
  CODECFS_ASSIGN(std::vector<FilterStage> chain, find_chain_for_new(node, variable));
  CODECFS_TRY(check_new(node.path, chain, variable.type.size));
  return chain;
}

Result<std::vector<FilterStage>> Tree::find_chain_for_new(const Node& node, const Variable& variable) {
  if (auto chain = chain_of_rules(node.path, variable)) return *std::move(chain);
  CODECFS_ASSIGN(auto spooled, spooled_chain(node, variable));
  if (spooled) return *std::move(spooled);
  if (variable.grid.rank() == 0) return std::vector<FilterStage>();
  for (const Node* at = &node; !at->is_root();) {
    CODECFS_ASSIGN(const Place parent, nodes_.at(at->parent));
    at = parent.node;
    const DirectoryState state = overlay_.state_of(*at);
    if (state.filter) return arranged(state.chain, variable, node.path);
  }
  return std::vector<FilterStage>();
}

Result<> Tree::set_chain(const Node& node, const std::vector<FilterStage>& chain, const Cancelled& cancelled,
                         const VariableView* made_of) {
  {
    CODECFS_ASSIGN(const VariableViewPtr now, dataset_.variable(node.object));
    CODECFS_TRY(check_new(node.path, chain, now->facts->type.size, now->facts->filters));
  }
  const std::shared_lock layout(layout_);
  Source& source = dataset_.source();
  CODECFS_TRY(source.begin_writing_to(node.object));
  CODECFS_ASSIGN(const WriteBack::Pause pause, write_back_.pause(node.object));
  CODECFS_ASSIGN(const VariableViewPtr before, dataset_.variable(node.object));
  if (made_of != nullptr && *before->codecs != *made_of->codecs)
    return fail(EAGAIN, "{}: has got another chain meanwhile", node.path);
  Progress progress;
  ProgressReporter work(fmt::format("re-encoding {}", node.path));
  progress.cancelled = [&] {
    work.at(progress.done, progress.total);
    return cancelled && cancelled();
  };
  const Result<> set = [&] {
    const Recodings::Entry listed(recodings_, node.object, progress);
    return source.set_filters(node.object, chain, progress);
  }();
  const bool decides = set.has_value() && !overlay_.note_rule_applied(node) && !rules_.empty();
  if (!set && set.error().code == ECANCELED) return fail(EINTR, "{}: cancelled; nothing has changed", node.path);
  CODECFS_TRY(set);
  write_back_.note_change();
  metadata_changed(node);
  CODECFS_ASSIGN(const VariableViewPtr after, dataset_.variable(node.object));
  if (*after->codecs != *before->codecs) {
    ++stats_.variables_recoded;
    log::info("{}: {} chunks are stored with {} now", node.path, progress.done.load(), trimmed(*after->codecs));
  }
  // Also if only a rule ends: until now the encoded view showed the pipeline of the rule.
  if (*after->codecs != *before->codecs || decides) CODECFS_TRY(chunks_stored_anew(node));
  return write_back_.commit();
}

/// After a re-encoding: invalidates what the kernel and the caches hold of the encoded chunks, and all sizes.
Result<> Tree::chunks_stored_anew(const Node& node) {
  CODECFS_ASSIGN(const VariableViewPtr now, dataset_.variable(node.object));
  const uint64_t count = now->facts->grid.count();
  CODECFS_ASSIGN(const Ino first_key, nodes_.chunk_key(node, 0, count));
  conversions_.drop(first_key, count);
  for (const Node* shown : nodes_.in_all_views(node)) {
    if (shows_arrays(shown->view)) continue;
    CODECFS_ASSIGN(const Ino first, nodes_.chunk_ino(*shown, 0, count));
    if (shown->view == View::decoded)
      kernel_->attributes_changed(first, count, true);
    else
      contents_changed(*shown, first, count);
  }
  return {};
}

bool Tree::is_overruled(const Node& node) {
  if (rules_.empty() || !overlay_.state_of(node).fresh) return false;
  const Result<VariableViewPtr> view = dataset_.variable(node.object);
  return view && chain_of_rules(node.path, *(*view)->facts).has_value();
}

Result<> Tree::set_spec(const Node& node, std::string_view spec, const Cancelled& cancelled) {
  CODECFS_ASSIGN(std::vector<FilterStage> chain, parse_spec(node.path, spec));
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  // The same pipeline is left as it is, whatever its order.
  const Result<std::string> written = filters::print_filter_spec(chain);
  const Result<std::string> stands = filters::print_filter_spec(view->facts->filters);
  if (written && stands && *written == *stands) {
    if (rules_.empty() || overlay_.state_of(node).rule_applied) return {};
    overlay_.note_rule_applied(node);
    metadata_changed(node);
    return chunks_stored_anew(node);
  }
  return set_chain(node, arranged(std::move(chain), *view->facts, node.path), cancelled);
}

Result<> Tree::set_codecs(const Node& node, std::string_view json, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  CODECFS_ASSIGN(const std::vector<FilterStage> chain, parse_codecs(node.path, json, view->facts->type.size));
  return set_chain(node, chain, cancelled);
}

Result<> Tree::apply_rules(const ChunkPlace& chunk, const Cancelled& cancelled) {
  if (rules_.empty()) return {};
  CODECFS_ASSIGN(const Place place, nodes_.at(chunk.key));
  if (overlay_.state_of(*place.node).rule_applied) return {};
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(place.node->object));
  const auto chain = chain_of_rules(place.node->path, *view->facts);
  if (chain) CODECFS_TRY(set_chain(*place.node, *chain, cancelled));
  overlay_.note_rule_applied(*place.node);
  return {};
}

// --- extended attributes

Result<> Tree::set_default_chain(const Node& group, std::string_view name, std::string_view value) {
  std::vector<FilterStage> chain;
  if (name == kFilter) {
    CODECFS_ASSIGN(chain, parse_spec(group.path, value));
  } else {
    CODECFS_ASSIGN(chain, parse_codecs(group.path, value, 0));
  }
  CODECFS_TRY(check_new(group.path, chain, 0));
  CODECFS_ASSIGN(std::string spec, filters::print_filter_spec(chain));
  overlay_.change(group, [&](DirectoryState& state) {
    state.filter = spec.empty() ? "none" : std::move(spec);
    state.chain = std::move(chain);
  });
  dataset_.forget(group.object);  // attributes that are being made of the state before are not kept
  forget_xattrs(group);
  return {};
}

/// Sets one of netCDF's special attributes.
Result<> Tree::set_special(const Node& node, std::string_view name, std::string_view value,
                           const Cancelled& cancelled) {
  if (name == kFilter) return set_spec(node, value, cancelled);
  if (name == kCodecs) return set_codecs(node, value, cancelled);
  for (;;) {
    Result<> edited = edit_chain(node, name, value, cancelled);
    if (edited || edited.error().code != EAGAIN) return edited;
  }
}

/// Changes one stage of the pipeline. EAGAIN if another request has changed the pipeline meanwhile.
Result<> Tree::edit_chain(const Node& node, std::string_view name, std::string_view value, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  std::vector<FilterStage> chain = view->facts->filters;
  if (name == "_DeflateLevel") {
    const std::string_view digits = trimmed(value);
    if (digits.size() != 1 || digits[0] < '0' || digits[0] > '9')
      return fail(EINVAL, "{}: _DeflateLevel is a number from 0 to 9, not \"{}\"", node.path, digits);
    chain = with_filter(std::move(chain), kDeflate, true, {static_cast<uint32_t>(digits[0] - '0')});
  } else if (name == "_Shuffle" || name == "_Fletcher32") {
    const Result<bool> wanted = parse_switch(value);
    if (!wanted) return fail(EINVAL, "{}: {}: {}", node.path, name, wanted.error().reason);
    const uint32_t id = name == "_Shuffle" ? kShuffle : kFletcher32;
    if (*wanted == (std::ranges::find(chain, id, &FilterStage::id) != chain.end())) return {};
    chain = with_filter(std::move(chain), id, *wanted);
  } else {
    return fail(EPERM, "{}: {} cannot be changed", node.path, name);
  }
  return set_chain(node, arranged(std::move(chain), *view->facts, node.path), cancelled, view.get());
}

Result<> Tree::set_xattr(Ino ino, std::string_view name, std::string_view value, XattrMode mode,
                         const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place place, place_of(ino));
  const Node& node = *place.node;
  if (!name.starts_with(kUser)) return std::unexpected(Error{EOPNOTSUPP, {}});
  if (read_only_) return fail(EROFS, "{}: this mount is read-only", node.path);
  const bool whole = place.file == FileKind::itself || place.file == FileKind::array;
  if (!whole || (node.kind != NodeKind::group && node.kind != NodeKind::variable))
    return fail(EPERM, "{}: only groups and variables have attributes that can be changed", node.path);
  const std::string_view plain = name.substr(kUser.size());
  CODECFS_ASSIGN(const XattrView view, xattrs(ino));
  const auto now = std::ranges::find(*view.stored, name, &Xattr::name);
  if (mode == XattrMode::create && now != view.stored->end()) return std::unexpected(Error{EEXIST, {}});
  if (mode == XattrMode::replace && now == view.stored->end()) return std::unexpected(Error{ENODATA, {}});
  // cp -a writes the special attributes of its source.
  if (is_special_xattr(name) && plain != kFilter && plain != kCodecs && now != view.stored->end() &&
      now->value == value)
    return {};
  if (node.kind == NodeKind::group && (plain == kFilter || plain == kCodecs))
    return set_default_chain(node, plain, value);
  if (is_special_xattr(name)) {
    if (node.kind == NodeKind::variable) {
      CODECFS_TRY(set_special(node, plain, value, cancelled));
      overlay_.show(node, {FileKind::filter, FileKind::codecs});
      return {};
    }
    return fail(EPERM, "{}: {} is not for groups", node.path, plain);
  }

  const std::shared_lock layout(layout_);
  std::vector<Attribute> attributes;
  if (node.kind == NodeKind::variable) {
    CODECFS_ASSIGN(const VariablePtr variable, dataset_.described(node.object));
    attributes = variable->attributes;
  } else {
    CODECFS_ASSIGN(attributes, dataset_.source().group_attributes(node.object));
  }
  const auto stands = std::ranges::find(attributes, plain, &Attribute::name);
  const Attribute wanted{std::string(plain),
                         attribute_value(value, stands == attributes.end() ? nullptr : &*stands->value)};
  CODECFS_TRY(dataset_.source().set_attributes(node.object, std::span(&wanted, 1), {}));
  write_back_.note_change();
  overlay_.show(node, {FileKind::zattrs});
  metadata_changed(node);
  return {};
}

Result<> Tree::remove_xattr(Ino ino, std::string_view name, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place place, place_of(ino));
  const Node& node = *place.node;
  if (name == "user._Error") {
    if (!errors_.remove(ino)) return std::unexpected(Error{ENODATA, {}});
    return {};
  }
  if (read_only_) return fail(EROFS, "{}: this mount is read-only", node.path);
  CODECFS_ASSIGN(const XattrView view, xattrs(ino));
  if (std::ranges::find(*view.stored, name, &Xattr::name) == view.stored->end())
    return std::unexpected(Error{ENODATA, {}});
  if (place.file != FileKind::itself && place.file != FileKind::array)
    return fail(EPERM, "{}: cannot be changed", node.path);
  const std::string plain(name.substr(kUser.size()));
  if (node.kind == NodeKind::group && (plain == kFilter || plain == kCodecs)) {
    overlay_.change(node, [](DirectoryState& state) {
      state.filter.reset();
      state.chain.clear();
    });
    dataset_.forget(node.object);  // as above
    forget_xattrs(node);
    return {};
  }
  if (plain == "_Shuffle" || plain == "_Fletcher32") return set_special(node, plain, "false", cancelled);
  if (plain == "_DeflateLevel") {
    for (;;) {
      CODECFS_ASSIGN(const VariableViewPtr variable, dataset_.variable(node.object));
      Result<> edited =
          set_chain(node, with_filter(variable->facts->filters, kDeflate, false), cancelled, variable.get());
      if (edited || edited.error().code != EAGAIN) return edited;
    }
  }
  if (is_special_xattr(name))
    return fail(EPERM, "{}: {} cannot be removed; no filters are set with: setfattr -n user._Filter -v none", node.path,
                plain);
  const std::shared_lock layout(layout_);
  CODECFS_TRY(dataset_.source().set_attributes(node.object, {}, std::span(&plain, 1)));
  write_back_.note_change();
  metadata_changed(node);
  return {};
}

}  // namespace codecfs::fs
