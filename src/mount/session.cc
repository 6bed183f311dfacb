#include "mount/session.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "backends/api/processes.h"
#include "backends/api/references.h"
#include "backends/api/source.h"
#include "backends/open/source_opener.h"
#include "base/interruptible_sleep.h"
#include "base/log.h"
#include "base/threads.h"
#include "base/unique_fd.h"
#include "fs/filesystem.h"
#include "fs/kernel/operations.h"
#include "fs/nodes/metadata_files.h"
#include "fs/passthrough/fuse_version.h"
#include "fs/passthrough/newer_protocol.h"
#include "model/limits.h"
#include "mount/dead_mount.h"
#include "mount/mount_checks.h"
#include "mount/mount_directory.h"
#include "mount/service_manager.h"
#include "mount/transport.h"
#include "mount/unmount.h"
#include "mount/watchdog.h"

namespace codecfs::mount {
namespace {

struct DestroySession {
  void operator()(fuse_session* session) const { fuse_session_destroy(session); }
};
struct DestroyLoopConfig {
  void operator()(fuse_loop_config* config) const { fuse_loop_cfg_destroy(config); }
};

/// libfuse's messages during the mount, which become part of our single error message.
std::string& mount_messages() {
  static std::string messages;
  return messages;
}

std::string format_message(const char* format, va_list arguments) {
  char line[512];
  std::vsnprintf(line, sizeof line, format, arguments);
  std::string text = line;
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

__attribute__((format(printf, 2, 0))) void collect_message(fuse_log_level, const char* format, va_list arguments) {
  if (!mount_messages().empty()) mount_messages() += "; ";
  mount_messages() += format_message(format, arguments);
}

__attribute__((format(printf, 2, 0))) void log_message(fuse_log_level level, const char* format, va_list arguments) {
  const std::string text = format_message(format, arguments);
  if (text.empty()) return;
  if (level <= FUSE_LOG_ERR)
    log::error("{}", text);
  else if (level <= FUSE_LOG_WARNING)
    log::warning("{}", text);
  else if (level <= FUSE_LOG_INFO)
    log::info("{}", text);
  else
    log::debug("{}", text);
}

/// Sets the log target. A log file is opened before the daemon changes its working directory.
Result<> set_up_log(const Options& options) {
  log::set_level(options.log_level);
  if (options.log_file.empty()) return {};
  return log::to_file(options.log_file);
}

/// Creates the mount point for -o mkdir.
Result<MadeDirectories> make_mountpoint(const Options& options) {
  if (!options.make_mountpoint) return MadeDirectories();
  return MadeDirectories::make(std::filesystem::absolute(options.mountpoint).lexically_normal().string());
}

std::string name_in_mount_table(const std::string& source) {
  return is_source_url(source) ? shown_source(source) : std::filesystem::absolute(source).lexically_normal().string();
}

/// The option list for libfuse. Commas in the source's name are escaped.
std::string fuse_options(const Options& options, bool read_only) {
  std::string name;
  for (const char c : name_in_mount_table(options.source)) {
    if (c == ',' || c == '\\') name += '\\';
    name += c;
  }
  std::string text =
      fmt::format("{},nosuid,nodev,subtype=codecfs,max_read={},fsname={}", read_only ? "ro" : "rw", fs::kMaxRead, name);
  bool default_permissions = false;
  for (const std::string& option : options.fuse) {
    default_permissions |= option == "default_permissions";
    text += "," + option;
  }
  if (!default_permissions) text += ",default_permissions";
  if (options.debug) text += ",debug";
  return text;
}

/// glibc raises its mmap threshold to the size of freed blocks (up to 32 MiB) and keeps smaller freed blocks in the
/// arena of each thread: after one large attribute the process would keep a hundred MiB. So sets a fixed threshold.
void set_mmap_threshold() {
  mallopt(M_MMAP_THRESHOLD, 4 << 20);  // larger than usual chunks, which are allocated repeatedly
  mallopt(M_TRIM_THRESHOLD, 8 << 20);
}

/// Threads beside those that read from an object store: while readers wait for it, as many as the kernel lets read
/// ahead, interrupts and other requests must be answered.
constexpr unsigned kWaiting = 96;

/// SIGTERM, SIGINT and SIGHUP end the mount. They are blocked in all threads; a separate thread waits for them.
sigset_t block_termination_signals() {
  sigset_t termination;
  sigemptyset(&termination);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&termination, signal);
  pthread_sigmask(SIG_BLOCK, &termination, nullptr);
  // That thread interrupts the FUSE loop with this signal.
  struct sigaction wake{};
  wake.sa_handler = [](int) {};
  sigaction(SIGUSR1, &wake, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return termination;
}

/// Waits for a terminating signal during its lifetime. The kernel writes back dirty pages of mapped files only on
/// request, so first syncs open files while the loop still serves requests, and then ends the loop.
class TerminationSignals {
 public:
  /// `mountpoint`: empty if there can be no dirty pages.
  TerminationSignals(const sigset_t& termination, fuse_session* session, fs::Mount& mount,
                     const std::string& mountpoint)
      : loop_(pthread_self()), thread_([=, this, &mount](const std::stop_token& stop) {
          run(termination, session, mount, mountpoint, stop);
        }) {}
  ~TerminationSignals() {
    thread_.request_stop();
    thread_.join();
  }
  TerminationSignals(const TerminationSignals&) = delete;
  TerminationSignals& operator=(const TerminationSignals&) = delete;

 private:
  void run(const sigset_t& termination, fuse_session* session, fs::Mount& mount, const std::string& mountpoint,
           const std::stop_token& stop) {
    int signal = -1;
    while (signal < 0) {
      const timespec moment{0, 100'000'000};
      signal = sigtimedwait(&termination, nullptr, &moment);
      if (stop.stop_requested()) return;
    }
    log::info("signal {}: unmounting", signal);
    mount.is_terminating = true;  // fsync below waits in the kernel for writers that wait for a re-encoding
    // Not syncfs, which does not wait for the pages of a FUSE filesystem in all kernels.
    if (!mountpoint.empty()) {
      for (const std::string& path : mount.filesystem.paths_open_for_writing()) {
        const UniqueFd file(open((mountpoint + path).c_str(), O_RDONLY | O_CLOEXEC));
        if (file) fsync(file.get());
      }
    }
    // Stop notifications first: one may be waiting in the kernel for the answer to a request, uninterruptibly.
    mount.stops_waiting = true;
    mount.filesystem.stop_reading_ahead();
    mount.notices.stop();
    mount.ending = true;
    fuse_session_exit(session);
    // The loop waits in sem_wait(), which a signal interrupts. Repeat, as it may not have reached that call yet.
    while (!stop.stop_requested()) {
      pthread_kill(loop_, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  const pthread_t loop_;
  std::jthread thread_;
};

bool allows_others(const Options& options) {
  return std::ranges::any_of(options.fuse,
                             [](const auto& name) { return name == "allow_other" || name == "allow_root"; });
}

bool has_other_users(const Options& options) {
  return std::ranges::find(options.fuse, "allow_other") != options.fuse.end();
}

ReferenceRules rules_of_references(const Options& options, const std::string& mountpoint) {
  ReferenceRules rules{.follow = options.follow.value_or(has_other_users(options) ? Follow::beneath : Follow::all),
                       .folder = {},
                       .mountpoint = mountpoint};
  std::error_code error;
  if (std::filesystem::is_directory(options.source, error))
    rules.folder = std::filesystem::canonical(options.source, error).string();
  return rules;
}

fs::MakeReferences references_of(const Options& options) {
  std::error_code error;
  const bool is_url = is_source_url(options.source);
  const std::string path =
      is_url ? shown_source(options.source) : std::filesystem::canonical(options.source, error).string();
  if (!options.references || error) return {};
  return [make = options.references, path](Source& source) -> Result<std::string> {
    // Readers of the references do not know the log. What this mount has committed is in it, and then it is locked.
    const Result<SourceCheck> state = check_source(path);
    if (!state && state.error().code != EBUSY) return std::unexpected(state.error());
    if (!state || state->has_pending)
      return fail(EBUSY, "changes are in the log beside {}: unmount, or store them with codecfs recover", path);
    return make(source, path);
  };
}

/// What is made is written with codecs, which clients choose: with those of Zarr v3 unless the user says otherwise.
fs::View view_of(const Options& options, const Source& source) {
  if (options.view) return *options.view;
  if (options.create.empty()) return fs::default_view(source);
  log::info("{} shows the view encoded3, for writers of Zarr v3; those of v2 write into {}/.codecfs/view/encoded",
            options.mountpoint, options.mountpoint);
  return fs::View::encoded3;
}

/// -o create. Whether the source was created.
Result<bool> create_if_absent(const SourceOpener& opener, const Options& options) {
  if (options.create.empty()) return false;
  if (is_source_url(options.source)) return opener.create_remote(options.source, options.create);
  if (access(options.source.c_str(), F_OK) == 0 || errno != ENOENT) return false;
  CODECFS_TRY(opener.create(options.source, options.create));
  return true;
}

/// Opens the source, so that it can rest if the mount becomes idle.
Result<std::unique_ptr<Source>> open_mounted(const SourceOpener& opener, const Options& options,
                                             const std::string& mountpoint) {
  const bool may_write = !options.read_only && !options.adaptation.is_any();
  CODECFS_ASSIGN(std::unique_ptr<Source> source, opener.open(options.source, may_write));
  if (options.idle_seconds != 0 && !is_source_url(options.source)) {
    std::error_code error;
    const std::string path = std::filesystem::canonical(options.source, error).string();
    // Such a source could only be opened again through the mount itself.
    if (path == mountpoint || path.starts_with(mountpoint + "/"))
      log::info("{}: stays open when the mount is idle, as the mount covers it", shown_source(options.source));
    else
      source = opener.make_resting(std::move(source), options.source, may_write);
  }
  CODECFS_TRY(source->exclude_path(mountpoint));
  if (options.adaptation.suits_netcdf) fs::show_utf8_in_files();
  return adapt_source(std::move(source), options.adaptation);
}

void release_idle_periodically(Source& source, const std::stop_token& stop) {
  constexpr std::chrono::seconds kUnused{30};
  constexpr std::chrono::seconds kInterval{2};
  while (sleep_unless_stopped(stop, kInterval)) source.release_idle(kUnused);
}

/// glibc needs this library for pthread_cancel, which libfuse calls at the unmount, and aborts the process without it.
/// Programs that have libstdc++ linked in need not have loaded it.
Result<> load_library_of_cancellation() {
  if (dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE) != nullptr) return {};
  return fail(ENOENT,
              "cannot mount: libgcc_s.so.1 is missing, which the C library needs (package libgcc or libgcc-s1)");
}

/// Mounts. libfuse 3.19 can report success although fusermount3 has refused the mount. Then the device was never
/// connected (EPERM); the device of a mount that was already unmounted was (ENODEV). It is read only when it
/// has an error, as a read of a connected device would take the first request.
bool mount_session(fuse_session* session, const std::string& mountpoint) {
  if (fuse_session_mount(session, mountpoint.c_str()) != 0) return false;
  pollfd device{.fd = fuse_session_fd(session), .events = 0, .revents = 0};
  if (poll(&device, 1, 0) != 1) return true;
  char byte = 0;
  return read(device.fd, &byte, sizeof byte) != -1 || errno != EPERM;
}

}  // namespace

Result<> run_mount(const Options& options, filters::FilterRules rules, Starter& starter) {
  const ServiceManager manager;
  const std::string name = shown_source(options.source);
  CODECFS_TRY(set_up_log(options));
  CODECFS_TRY(load_library_of_cancellation());
  CODECFS_TRY(detach_dead_mounts(options.mountpoint));
  CODECFS_ASSIGN(MadeDirectories made, make_mountpoint(options));
  CODECFS_ASSIGN(const std::string mountpoint, check_mountpoint(options.mountpoint, options.source, options.nonempty));
  const SourceOpener opener(options.sources);
  CODECFS_ASSIGN(const bool is_new, create_if_absent(opener, options));
  set_mmap_threshold();
  set_max_chunk_bytes(options.max_chunk_bytes);
  set_reference_rules(rules_of_references(options, mountpoint));
  fs::UnmountNotifier unmount_notifier;  // must outlive the source
  CODECFS_ASSIGN(std::unique_ptr<Source> source, open_mounted(opener, options, mountpoint));
  const std::string format = source->format();
  if (!options.create.empty() && !is_new) {
    CODECFS_TRY(check_created_format(options.source, options.create, format));
    if (options.create == "nczarr") CODECFS_TRY(check_is_nczarr(options.source, *source));
  }
  std::error_code no_directory;
  if (std::filesystem::is_empty(options.source, no_directory) && !no_directory && S_ISDIR(source->status().st_mode))
    log::warning("{}: is an empty directory, which is mounted as a folder; -o create= makes a dataset", name);
  if (rules.keeps_to_stock() && source->chains_for_numcodecs_in(source->root().object))
    return fail(EINVAL, "-o stock-filters: only for HDF5, as each program with Zarr has numcodecs");
  const fs::View view = view_of(options, *source);
  const Result<> writable = source->writable();
  if (!options.read_only && !options.adaptation.is_any() && !writable)
    log::info("{} is mounted read-only: {}", name, writable.error().reason);
  fs::Filesystem filesystem(std::move(source), {.cache_bytes = options.cache_bytes,
                                                .rules = std::move(rules),
                                                .write_back = {.dirty_bytes = options.dirty_bytes,
                                                               .commit = std::chrono::seconds(options.commit_seconds)},
                                                .read_only = options.read_only,
                                                .view = view,
                                                .coherent = options.coherent,
                                                .portable = options.portable,
                                                .is_new = is_new,
                                                .nodelete = options.nodelete,
                                                .has_other_users = has_other_users(options),
                                                .mountpoint = mountpoint,
                                                .source_counters = [opener] { return opener.counters(); },
                                                .make_references = references_of(options)});
  CODECFS_TRY(filesystem.rules().check());
  fs::Mount mount{filesystem, mountpoint, unmount_notifier};
  if (options.idle_seconds != 0)
    mount.rest = std::make_unique<fs::SourceRest>(mount, std::chrono::seconds(options.idle_seconds));
  filesystem.set_invalidator(mount.notices);

  fuse_set_log_func(collect_message);
  const std::string list = fuse_options(options, filesystem.read_only());
  const char* words[] = {"codecfs", "-o", list.c_str(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, const_cast<char**>(words));
  const std::unique_ptr<fuse_session, DestroySession> session(
      fuse_session_new(&arguments, &fs::operations(), sizeof(fuse_lowlevel_ops), &mount));
  fuse_opt_free_args(&arguments);
  if (!session) return fail(EINVAL, "cannot start a FUSE session: {}", mount_messages());
  CODECFS_TRY(check_transport(options, mount));
  // A signal unmounts from the moment at which others can see the mount.
  const sigset_t termination = block_termination_signals();
  if (!mount_session(session.get(), mountpoint))
    return fail(EIO, "cannot mount on {}{}{}{}", mountpoint, mount_messages().empty() ? "" : ": ", mount_messages(),
                hint_for_failed_mount(allows_others(options)));
  fuse_set_log_func(log_message);
  Result<> prepared = fs::complete_replies(session.get());
  if (prepared) prepared = choose_transport(options, session.get(), mount);
  if (!prepared) {
    fuse_session_unmount(session.get());
    return prepared;
  }

  std::optional<NotedHelper> noted;
  if (!filesystem.read_only()) noted.emplace(name_in_mount_table(options.source), mountpoint);
  if (Result<> daemon = starter.mounted(); !daemon) {
    fuse_session_unmount(session.get());
    return daemon;
  }
  if (!options.foreground && options.log_file.empty()) log::to_syslog();
  if (format == "netCDF-4" && !options.adaptation.is_any())
    log::info("{}: ncdump, NCO, CDO and R read most of a mount with -o view=netcdf", name);
  log::info("{} ({}) mounted on {}", name, format, mountpoint);
  if (const SourceProtections protections = protections_of_sources(); protections.is_whole)
    log::info("{}", protections.text);

  const std::string log = options.log_file.empty() ? options.foreground ? "stderr" : "syslog" : options.log_file;
  const Watchdog watchdog(mountpoint, name, !filesystem.read_only(), log);
  const std::unique_ptr<fuse_loop_config, DestroyLoopConfig> config(fuse_loop_cfg_create());
  const auto reads = static_cast<unsigned>(filesystem.context().dataset.source().reads_at_once());
  const unsigned threads = options.threads != 0
                               ? options.threads
                               : std::max({8U, reads == 0 ? 0 : reads + kWaiting, static_cast<unsigned>(core_count())});
  if (reads != 0) mount.device = fuse_session_fd(session.get());
  fuse_loop_cfg_set_max_threads(config.get(), threads);
  fuse_loop_cfg_set_idle_threads(config.get(), threads);
  Result<> served = mount.notices.start(session.get(), threads);
  if (served) served = mount.parked.start();
  fs::Passthrough* const passthrough = filesystem.context().kernel.passthrough.get();
  std::jthread idle;
  if (served) try {
      const TerminationSignals signals(termination, session.get(), mount, filesystem.read_only() ? "" : mountpoint);
      const std::jthread releasing(
          [&](const std::stop_token& stop) { release_idle_periodically(filesystem.context().dataset.source(), stop); });
      if (mount.rest) idle = std::jthread([&](const std::stop_token& stop) { mount.rest->run(stop); });
      manager.ready(fmt::format("{} is mounted on {}", name, mountpoint));
      const int ended = fuse_session_loop_mt(session.get(), config.get());  // 0 or -errno
      if (ended < 0) log::error("{}: the FUSE loop ended: {}", mountpoint, std::strerror(-ended));
    } catch (const std::exception& exception) {  // of a thread that cannot be created
      served = fail(EAGAIN, "{}: cannot serve the mount: {}", name, exception.what());
    }
  mount.ending = true;  // cancels a re-encoding
  mount.parked.stop();
  filesystem.stop_reading_ahead();
  mount.notices.stop();
  if (passthrough != nullptr) passthrough->stop();  // before the session's descriptor is closed
  fuse_session_unmount(session.get());
  unmount_notifier.unmounted();
  // After the unmount: until then the kernel may wait for requests before it has dropped pages.
  idle = std::jthread();
  manager.stopping(fmt::format("storing what was written to {}", name));
  const Result<> finished = filesystem.finish();
  if (!finished) log::error("{}: not all data could be stored: {}", name, finished.error().reason);
  noted.reset();
  made.remove();
  unmount_notifier.set_result(finished);
  return served ? finished : served;
}

}  // namespace codecfs::mount
