#include "fs/views/filter_control.h"

#include <algorithm>
#include <utility>

#include "base/fail_points.h"
#include "base/log.h"
#include "base/progress_reporter.h"
#include "filters/core/codec_json.h"
#include "filters/core/filter.h"
#include "filters/core/filter_spec.h"
#include "filters/core/parameter_limits.h"
#include "filters/core/stock_filters.h"
#include "filters/core/zarr3_chain.h"
#include "filters/core/zarr_chain.h"
#include "fs/chunks/recoding_policy.h"
#include "fs/nodes/xattrs.h"
#include "fs/nodes/zarr3_files.h"
#include "model/json.h"

namespace codecfs::fs {
namespace {

// HDF5's ids of the filters that have special attributes.

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

/// Whether a pipeline that a user wrote names the filters and parameters of the stored one, as it is shown or as it is
/// stored, and no other flags.
bool says_the_same(std::span<const FilterStage> written, std::span<const FilterStage> stored) {
  return std::ranges::equal(written, stored, [](const FilterStage& a, const FilterStage& b) {
    if (a.has_flag && b.has_flag && a.optional != b.optional) return false;
    if (a.id == b.id && a.id != 0 && a.parameters == b.parameters) return true;
    if (a.has_flag) return false;  // in the form that tells what is stored
    const Result<std::string> one = filters::print_filter_spec({&a, 1});
    const Result<std::string> other = filters::print_filter_spec({&b, 1});
    return one && other && *one == *other;
  });
}

/// Whether HDF5 skipped filters of any chunk.
Result<bool> has_masked_chunks(Source& source, ObjectId variable, const std::function<bool()>& cancelled) {
  constexpr size_t kBatch = 4096;
  if (source.chains_for_numcodecs_in(variable)) return false;  // Zarr skips none
  CODECFS_ASSIGN(const VariablePtr facts, source.facts(variable));
  if (facts->filters.empty() || facts->storage != Storage::chunked) return false;
  for (uint64_t from = 0;;) {
    CODECFS_ASSIGN(const std::vector<uint64_t> numbers, source.stored_chunks(variable, from, kBatch));
    if (numbers.empty()) return false;
    for (const uint64_t number : numbers) {
      CODECFS_ASSIGN(const ChunkInfo chunk, source.locate(variable, number));
      if (chunk.filter_mask != 0) return true;
    }
    from = numbers.back() + 1;
    if (cancelled && cancelled()) return fail(EINTR, "cancelled; nothing has changed");
  }
}

}  // namespace

Result<std::vector<FilterStage>> FilterControl::parse_codecs(const Node& node, std::string_view text,
                                                             const Variable* variable) {
  text = trimmed(text);
  if (text.empty()) return fail_empty(node.path);
  if (filters::is_none(text)) return std::vector<FilterStage>();
  const auto in_codecs = [&](const Error& error) { return fail(EINVAL, "{}: _Codecs: {}", node.path, error.reason); };
  const Result<Json> json = parse_json(text);
  if (!json) return in_codecs(json.error());
  if (!json->is_array())
    return fail(EINVAL, "{}: _Codecs: not a list of codecs: [{{\"id\": ...}}, ...] or [{{\"name\": ...}}, ...]",
                node.path);
  const uint64_t item_size = variable != nullptr ? variable->type.size : 0;
  const bool is_v3 = filters::is_zarr3_form(*json);
  auto chain = is_v3 ? filters::parse_zarr3_chain(*json, variable)
                     : filters::parse_zarr_codecs(Json(), json->empty() ? Json() : *json, item_size);
  if (!chain) return in_codecs(chain.error());
  if (is_v3 && !rules_.are_for_numcodecs(node.path)) return filters::with_zlib_for_gzip(*std::move(chain), item_size);
  return chain;
}

Result<> FilterControl::apply_rules(const ChunkPlace& chunk, const Cancelled& cancelled) {
  if (mount_.options.rules.empty()) return {};
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(chunk.key));
  if (mount_.tree.overlay.state_of(*place.node).rule_applied) return {};
  CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(place.node->object));
  const auto chain = rules_.pipeline_for(place.node->path, *view->facts);
  if (chain) {
    const RecodingPolicy::Scope tried;
    const Result<> applied = set_chain(*place.node, *chain, cancelled);
    // Another variable is being re-encoded: a later change applies the rule.
    if (!applied && tried.has_refused() && RecodingPolicy::current() == DuringRecoding::hold) return {};
    CODECFS_TRY(applied);
  }
  mount_.tree.overlay.note_rule_applied(*place.node);
  return {};
}

Result<> FilterControl::set_spec(const Node& node, std::string_view spec, const Cancelled& cancelled) {
  CODECFS_ASSIGN(std::vector<FilterStage> chain, parse_spec(node.path, spec));
  CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
  // If the variable has these filters already, its pipeline stays, whatever its order.
  if (says_the_same(chain, view->facts->filters)) return keep_chain(node, cancelled);
  return set_chain(node, rules_.arranged(std::move(chain), *view->facts, node.path), cancelled);
}

Result<> FilterControl::set_stored(const Node& node, std::string_view spec, const Cancelled& cancelled) {
  CODECFS_ASSIGN(std::vector<FilterStage> chain, parse_spec(node.path, spec));
  for (FilterStage& stage : chain) stage.is_complete = true;
  CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
  if (says_the_same(chain, view->facts->filters)) return keep_chain(node, cancelled);
  if (rules_.are_for_numcodecs(node.path)) chain = rules_.arranged(std::move(chain), *view->facts, node.path);
  return set_chain(node, chain, cancelled);
}

Result<> FilterControl::keep_chain(const Node& node, const Cancelled& cancelled) {
  CODECFS_TRY(encode_masked_chunks(node, cancelled));
  if (mount_.options.rules.empty() || mount_.tree.overlay.state_of(node).rule_applied) return {};
  mount_.tree.overlay.note_rule_applied(node);
  notifier_.metadata_changed(node);
  return notifier_.chunks_reencoded(node);
}

Result<> FilterControl::set_codecs(const Node& node, std::string_view json, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
  CODECFS_ASSIGN(const std::vector<FilterStage> chain, parse_codecs(node, json, view->facts.get()));
  // A filter without a codec is shown with complete parameters, which are not completed again.
  if (!chain.empty() && filters::print_codecs(chain) == filters::print_codecs(view->facts->filters))
    return keep_chain(node, cancelled);
  CODECFS_TRY(set_chain(node, chain, cancelled));
  CODECFS_ASSIGN(const VariableViewPtr now, mount_.dataset.variable(node.object));
  return *now->codecs == *view->codecs ? encode_masked_chunks(node, cancelled) : Result<>();
}

Result<> FilterControl::encode_masked_chunks(const Node& node, const Cancelled& cancelled) {
  Source& source = mount_.dataset.source();
  CODECFS_ASSIGN(const bool is_needed, has_masked_chunks(source, node.object, cancelled));
  if (!is_needed) return {};
  CODECFS_ASSIGN(Recodings::Turn turn, begin_turn(node));
  CODECFS_TRY(source.begin_writing_to(node.object));
  CODECFS_ASSIGN(const WriteBack::Recoding recoding, mount_.chunks.write_back.begin_recoding(node.object, true));
  Progress progress;
  const Result<> done =
      reencode(node, turn, progress, cancelled, [&] { return source.encode_masked_chunks(node.object, progress); });
  if (!done && done.error().code == EINTR)
    return fail(EINTR, "{}: cancelled; the chunks that were not reached are as before", node.path);
  CODECFS_TRY(done);
  CODECFS_TRY(notifier_.chunks_reencoded(node));
  return mount_.chunks.write_back.commit();
}

Result<> FilterControl::check_text(const Node& node, bool is_spec, std::string_view text) {
  if (is_overruled(node)) return {};
  CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
  const Variable& variable = *view->facts;
  CODECFS_ASSIGN(const std::vector<FilterStage> chain,
                 is_spec ? parse_spec(node.path, text) : parse_codecs(node, text, &variable));
  return check_new(node.path, chain, variable.type.size, variable.filters);
}

/// Sets one of netCDF's special attributes.
Result<> FilterControl::set_special(const Node& node, std::string_view name, std::string_view value,
                                    const Cancelled& cancelled) {
  if (name == kFilterName) return set_spec(node, value, cancelled);
  if (name == kFilterStoredName) return set_stored(node, value, cancelled);
  if (name == kCodecsName) return set_codecs(node, value, cancelled);
  for (;;) {
    Result<> edited = edit_chain(node, name, value, cancelled);
    if (edited || edited.error().code != EAGAIN) return edited;
  }
}

Result<> FilterControl::remove_special(const Node& node, std::string_view name, const Cancelled& cancelled) {
  if (name == "_Shuffle" || name == "_Fletcher32") return set_special(node, name, "false", cancelled);
  if (name != "_DeflateLevel")
    return fail(EPERM, "{}: {} cannot be removed; no filters are set with: setfattr -n user._Filter -v none", node.path,
                name);
  for (;;) {
    CODECFS_ASSIGN(const VariableViewPtr variable, mount_.dataset.variable(node.object));
    Result<> edited =
        set_chain(node, with_filter(variable->facts->filters, kDeflateId, false), cancelled, variable.get());
    if (edited || edited.error().code != EAGAIN) return edited;
  }
}

void FilterControl::remove_default_chain(const Node& group) {
  mount_.tree.overlay.change(group, [](DirectoryState& state) { state.chain.reset(); });
  mount_.dataset.forget(group.object);  // as in set_default_chain()
  notifier_.forget_xattrs(group);
}

Result<> FilterControl::set_default_chain(const Node& group, std::string_view name, std::string_view value) {
  std::vector<FilterStage> chain;
  if (name == kFilterName) {
    CODECFS_ASSIGN(chain, parse_spec(group.path, value));
  } else {
    CODECFS_ASSIGN(chain, parse_codecs(group, value, nullptr));
  }
  CODECFS_TRY(check_new(group.path, chain, 0));
  mount_.tree.overlay.change(group, [&](DirectoryState& state) { state.chain = std::move(chain); });
  mount_.dataset.forget(group.object);  // attributes that are being made of the state before are not kept
  notifier_.forget_xattrs(group);
  return {};
}

bool FilterControl::is_overruled(const Node& node) {
  if (mount_.options.rules.empty() || !mount_.tree.overlay.state_of(node).fresh) return false;
  const Result<VariableViewPtr> view = mount_.dataset.variable(node.object);
  return view && rules_.pipeline_for(node.path, *(*view)->facts).has_value();
}

/// The filter pipeline of a new variable.
Result<std::vector<FilterStage>> FilterControl::chain_for_new(const Node& node, const Variable& variable) {
  CODECFS_ASSIGN(std::vector<FilterStage> chain, find_chain_for_new(node, variable));
  if (rules_.keep_to_stock(node.path)) chain = filters::stock_chain(chain, variable.type.size);
  CODECFS_TRY(check_new(node.path, chain, variable.type.size));
  tell_plugins(node, chain);
  return chain;
}

Result<std::vector<FilterStage>> FilterControl::chain_for_codecs(
    const Node& node, const Variable& wanted, std::optional<DirectoryState::WrittenCodecs>& written) {
  written.reset();
  // An existing variable may have unusual parameters, which stay as they are.
  std::vector<FilterStage> stored;
  if (node.kind == NodeKind::variable) {
    CODECFS_ASSIGN(const EncodedFormPtr form, forms_.of(node));
    stored = form->chain;
  }
  const MetadataFormat& format = node.form().format();
  const std::string_view file = name_of(format.of_array);
  if (const Result<> checked = filters::check_new_chain(wanted.filters, wanted.type.size, stored); !checked)
    return fail(checked.error().code, "{}: {}: {}", node.path, file, checked.error().reason);
  if (mount_.options.portable && format.version == 3 && !filters::is_portable(wanted.filters))
    return fail(EINVAL, "{}: {}: with -o portable, chunks have no codecs but gzip, zstd, blosc and crc32c", node.path,
                file);
  std::vector<FilterStage> codecs = wanted.filters;
  if (rules_.are_for_numcodecs(node.path)) return format.for_numcodecs(std::move(codecs), wanted.type.size);
  // As the view shows them until the unmount.
  const auto as_written = [&](std::vector<FilterStage> given) {
    return DirectoryState::WrittenCodecs{&format, format.as_shown(std::move(given), wanted.type.size)};
  };
  if (wanted.grid.rank() == 0 && !codecs.empty()) {
    // HDF5 filters no scalars, but Zarr's clients compress them: what they write is decoded and stored.
    written = as_written(std::move(codecs));
    return std::vector<FilterStage>();
  }
  codecs = format.for_hdf5(std::move(codecs), wanted.type.size);
  auto chain = filters::hdf5_chain(codecs, filters::shape_of_chunk(wanted));
  if (!chain) return fail(chain.error().code, "{}: {}: {}", node.path, file, chain.error().reason);
  if (rules_.keep_to_stock(node.path) && !filters::are_stock(chain->stages)) {
    written = as_written(wanted.filters);
    return filters::stock_chain(chain->stages, wanted.type.size);
  }
  tell_plugins(node, chain->stages);
  if (!chain->is_shown_so) written = as_written(wanted.filters);
  return std::move(chain->stages);
}

void FilterControl::tell_plugins(const Node& node, std::span<const FilterStage> chain) {
  const std::string plugins = filters::plugins_needed(chain);
  if (plugins.empty() || rules_.are_for_numcodecs(node.path)) return;
  std::call_once(told_plugins_, [&] {
    log::info(
        "{}: is stored with {}, for which other programs need a plugin of HDF5 (h5py: `import hdf5plugin`; ncdump: "
        "HDF5_PLUGIN_PATH); a mount with -o stock-filters stores deflate (not told again in this mount)",
        node.path, plugins);
  });
}

Result<> FilterControl::apply_codecs(Ino directory, const Variable& wanted, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(directory));
  const Node& node = *place.node;
  CODECFS_ASSIGN(const EncodedFormPtr form, forms_.of(node));
  if (node.form().format().is_shown_as(form->chain, wanted.filters, wanted.type.size)) return {};
  std::optional<DirectoryState::WrittenCodecs> written;
  CODECFS_ASSIGN(const std::vector<FilterStage> chain, chain_for_codecs(node, wanted, written));
  CODECFS_TRY(set_chain(node, chain, cancelled));
  if (!written) return {};
  const SharedLock layout(mount_.tree.layout);
  mount_.tree.overlay.change(node, [&](DirectoryState& state) { state.codecs = std::move(written); });
  notifier_.metadata_changed(node);
  return notifier_.chunks_reencoded(node);
}

Result<> FilterControl::set_chain(const Node& node, std::vector<FilterStage> chain, const Cancelled& cancelled,
                                  const VariableView* made_of) {
  {
    CODECFS_ASSIGN(const VariableViewPtr now, mount_.dataset.variable(node.object));
    if (rules_.keep_to_stock(node.path)) chain = filters::stock_chain(chain, now->facts->type.size);
    CODECFS_TRY(check_new(node.path, chain, now->facts->type.size, now->facts->filters));
  }
  CODECFS_ASSIGN(Recodings::Turn turn, begin_turn(node));
  Source& source = mount_.dataset.source();
  CODECFS_TRY(source.begin_writing_to(node.object));
  CODECFS_ASSIGN(const WriteBack::Recoding recoding, mount_.chunks.write_back.begin_recoding(node.object, true));
  CODECFS_ASSIGN(const VariableViewPtr before, mount_.dataset.variable(node.object));
  if (made_of != nullptr && *before->codecs != *made_of->codecs)
    return fail(EAGAIN, "{}: has got another chain meanwhile", node.path);
  Progress progress;
  CODECFS_TRY(
      reencode(node, turn, progress, cancelled, [&] { return source.set_filters(node.object, chain, progress); }));
  const SharedLock layout(mount_.tree.layout);
  const bool was_written = mount_.tree.overlay.state_of(node).codecs.has_value();
  if (was_written) mount_.tree.overlay.change(node, [](DirectoryState& state) { state.codecs.reset(); });
  const bool decides = (!mount_.tree.overlay.note_rule_applied(node) && !mount_.options.rules.empty()) || was_written;
  notifier_.metadata_changed(node);
  CODECFS_ASSIGN(const VariableViewPtr after, mount_.dataset.variable(node.object));
  const bool is_changed = *after->codecs != *before->codecs || filters::print_stored_spec(after->facts->filters) !=
                                                                   filters::print_stored_spec(before->facts->filters);
  if (is_changed) {
    ++mount_.stats.variables_recoded;
    log::info("{}: {} chunks are stored with {} now", node.path, progress.done.load(), trimmed(*after->codecs));
    tell_plugins(node, after->facts->filters);
  }
  // Chunks look different also if only a rule or what a client wrote ends: until now the encoded view showed that
  // pipeline.
  if (is_changed || decides) CODECFS_TRY(notifier_.chunks_reencoded(node));
  return mount_.chunks.write_back.commit();
}

Result<> FilterControl::set_sharding(Ino directory, Variable wanted, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(directory));
  const Node& node = *place.node;
  CODECFS_ASSIGN(Recodings::Turn turn, begin_turn(node));
  std::optional<DirectoryState::WrittenCodecs> none;  // a source of Zarr shows what it stores
  CODECFS_ASSIGN(wanted.filters, chain_for_codecs(node, wanted, none));
  Source& source = mount_.dataset.source();
  CODECFS_TRY(source.begin_writing_to(node.object));
  // The chunks get other keys, so that changes cannot be held for them.
  CODECFS_ASSIGN(const WriteBack::Recoding recoding, mount_.chunks.write_back.begin_recoding(node.object, false));
  CODECFS_ASSIGN(const VariableViewPtr before, mount_.dataset.variable(node.object));
  Progress progress;
  CODECFS_TRY(
      reencode(node, turn, progress, cancelled, [&] { return source.set_sharding(node.object, wanted, progress); }));
  const SharedLock layout(mount_.tree.layout);
  mount_.tree.overlay.note_rule_applied(node);
  const Nodes::Reshaping reshaping(mount_.tree.nodes, node);
  notifier_.metadata_changed(node, false);
  CODECFS_ASSIGN(const VariableViewPtr after, mount_.dataset.variable(node.object));
  const Variable& now = *after->facts;
  if (are_same_shards(*before->facts, now)) return {};
  ++mount_.stats.variables_recoded;
  log::info("{}: {} files are stored with {} now", node.path, progress.done.load(),
            now.shards ? print_json(now.shards->codecs) : trimmed(*after->codecs));
  // The numbers of the files mean others now.
  CODECFS_TRY(notifier_.renumber_chunks(node, before->facts->grid.count(), now.grid.count(), true));
  CODECFS_TRY(notifier_.chunks_reencoded(node));
  return mount_.chunks.write_back.commit();
}

/// From now on the variable is not moved or removed.
Result<Recodings::Turn> FilterControl::begin_turn(const Node& node) {
  CODECFS_ASSIGN(Recodings::Turn turn, mount_.recodings.begin());
  const SharedLock layout(mount_.tree.layout);
  const Result<Place> now = mount_.tree.nodes.at(node.ino());
  turn.name(node.object, now ? now->node->path : node.path);
  return turn;
}

/// Carries out a change that re-encodes all chunks of a variable, with its progress. EINTR: cancelled.
Result<> FilterControl::reencode(const Node& node, Recodings::Turn& turn, Progress& progress,
                                 const Cancelled& cancelled, const std::function<Result<>()>& change) {
  ProgressReporter work(fmt::format("re-encoding {}", node.path), ProgressReporter::Unit::chunks);
  progress.cancelled = [&] {
    work.at(progress.done, progress.total);
    return cancelled && cancelled();
  };
  const Result<> done = [&] {
    const auto shown = turn.show(progress);
    FailPoints::allocate();
    return change();
  }();
  progress.cancelled = {};
  if (!done && done.error().code == ECANCELED) return fail(EINTR, "{}: cancelled; nothing has changed", node.path);
  if (done) mount_.chunks.write_back.note_change();
  return done;
}

/// Changes one stage of the pipeline. EAGAIN if another request has changed the pipeline meanwhile.
Result<> FilterControl::edit_chain(const Node& node, std::string_view name, std::string_view value,
                                   const Cancelled& cancelled) {
  CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
  std::vector<FilterStage> chain = view->facts->filters;
  if (name == "_DeflateLevel") {
    const std::string_view digits = trimmed(value);
    if (digits.size() != 1 || digits[0] < '0' || digits[0] > '9')
      return fail(EINVAL, "{}: _DeflateLevel is a number from 0 to 9, not \"{}\"", node.path, digits);
    chain = with_filter(std::move(chain), kDeflateId, true, {static_cast<uint32_t>(digits[0] - '0')});
  } else if (name == "_Shuffle" || name == "_Fletcher32") {
    const Result<bool> wanted = parse_switch(value);
    if (!wanted) return fail(EINVAL, "{}: {}: {}", node.path, name, wanted.error().reason);
    const uint32_t id = name == "_Shuffle" ? kShuffleId : kFletcher32Id;
    if (*wanted == (std::ranges::find(chain, id, &FilterStage::id) != chain.end())) return {};
    chain = with_filter(std::move(chain), id, *wanted);
  } else {
    return fail(EPERM, "{}: {} cannot be changed", node.path, name);
  }
  return set_chain(node, rules_.arranged(std::move(chain), *view->facts, node.path), cancelled, view.get());
}

Result<std::vector<FilterStage>> FilterControl::find_chain_for_new(const Node& node, const Variable& variable) {
  if (auto chain = rules_.pipeline_for(node.path, variable)) return *std::move(chain);
  CODECFS_ASSIGN(auto spooled, spooled_chain(node, variable));
  if (spooled) return *std::move(spooled);
  if (variable.grid.rank() == 0) return std::vector<FilterStage>();
  for (const Node* at = &node; !at->is_root();) {
    CODECFS_ASSIGN(const Place parent, mount_.tree.nodes.at(at->parent));
    at = parent.node;
    const DirectoryState state = mount_.tree.overlay.state_of(*at);
    if (state.chain) return rules_.arranged(*state.chain, variable, node.path);
  }
  return std::vector<FilterStage>();
}

/// The filter pipeline in a file that was written before the .zarray, as cp -r may do.
Result<std::optional<std::vector<FilterStage>>> FilterControl::spooled_chain(const Node& group,
                                                                             const Variable& variable) {
  for (const std::string_view name : {kCodecsName, kFilterName}) {
    if (!mount_.tree.scratch.find(group.ino(), name)) continue;
    std::string text;
    {
      CODECFS_ASSIGN(const ScratchFiles::Sealed file, mount_.tree.scratch.seal(group.ino(), name));
      text = file.content();
    }
    if (trimmed(text).empty()) continue;
    CODECFS_ASSIGN(std::vector<FilterStage> chain,
                   name == kFilterName ? parse_spec(group.path, text) : parse_codecs(group, text, &variable));
    return chain;
  }
  return std::nullopt;
}

}  // namespace codecfs::fs
