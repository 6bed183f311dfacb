// Command lines: sizes, escapes, mount(8)'s form, and errors that name the argument.

#include "cli/mount_options.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "cli/command_line.h"
#include "cli/mount.h"
#include "filters/core/codec_json.h"

namespace codecfs::cli {
namespace {

/// The mount that a command line requests.
Result<MountArguments> parse(const std::vector<const char*>& words) {
  CODECFS_ASSIGN(const auto command, parse_command_line(static_cast<int>(words.size()), words.data()));
  return dynamic_cast<const MountCommand&>(*command).arguments();
}

TEST(Options, SplitsAtCommasThatAreNotEscaped) {
  EXPECT_EQ(split_options("a,b=1,c"), (std::vector<std::string>{"a", "b=1", "c"}));
  EXPECT_EQ(split_options("a=1\\,2,b"), (std::vector<std::string>{"a=1,2", "b"}));
  EXPECT_EQ(split_options(",,a,"), (std::vector<std::string>{"a"}));
  EXPECT_TRUE(split_options("").empty());
  EXPECT_EQ(split_options("filter=\"v,307,9\",b"), (std::vector<std::string>{"filter=v,307,9", "b"}));
  EXPECT_EQ(split_options("a=\\\"1,b"), (std::vector<std::string>{"a=\"1", "b"}));
  EXPECT_EQ(split_options("a=\"1,b"), (std::vector<std::string>{"a=1,b"}));
}

TEST(Options, ReadsSizes) {
  EXPECT_EQ(*parse_size("4096"), 4096);
  EXPECT_EQ(*parse_size("512K"), 512 << 10);
  EXPECT_EQ(*parse_size("2G"), uint64_t{2} << 30);
  for (const char* text : {"", "M", "-1", "1T", "1MB", "99999999999999999999", "18446744073709551615G", " 1"})
    EXPECT_FALSE(parse_size(text)) << text;
}

TEST(Options, TakesTheOrdinaryForm) {
  const auto command = parse({"codecfs", "-o", "cache=8M,threads=3,allow_other", "in.nc", "mnt", "-o", "ro", "-f"});
  ASSERT_TRUE(command) << command.error().reason;
  EXPECT_EQ(command->options.source, "in.nc");
  EXPECT_EQ(command->options.mountpoint, "mnt");
  EXPECT_EQ(command->options.cache_bytes, 8 << 20);
  EXPECT_EQ(command->options.threads, 3);
  EXPECT_EQ(command->options.fuse, (std::vector<std::string>{"allow_other"}));
  EXPECT_TRUE(command->options.foreground);
}

TEST(Options, TakesTheFormOfMount8) {
  const auto command = parse({"/sbin/mount.codecfs", "/data/in.nc", "/mnt", "-sn", "-o",
                              "rw,nofail,x-systemd.automount,_netdev,cache=8M", "-t", "codecfs"});
  ASSERT_TRUE(command) << command.error().reason;
  EXPECT_FALSE(command->is_fake);
  EXPECT_EQ(command->options.source, "/data/in.nc");
  EXPECT_EQ(command->options.cache_bytes, 8 << 20);
  EXPECT_FALSE(command->options.foreground) << "-f means fake here, -sn is taken and ignored";
  EXPECT_TRUE(parse({"mount.codecfs", "a", "b", "-f"})->is_fake);
}

TEST(Options, TakesWhatAMountIsToDoByItself) {
  const auto options =
      parse({"codecfs", "a", "b", "-o", "mkdir,idle=90,log=/x/y.log,loglevel=warning,portable"})->options;
  EXPECT_TRUE(options.make_mountpoint);
  EXPECT_TRUE(options.portable);
  EXPECT_EQ(options.idle_seconds, 90);
  EXPECT_EQ(options.log_file, "/x/y.log");
  EXPECT_EQ(options.log_level, log::Level::warning);
  const auto plain = parse({"codecfs", "a", "b"})->options;
  EXPECT_FALSE(plain.make_mountpoint);
  EXPECT_FALSE(plain.portable);
  EXPECT_EQ(plain.idle_seconds, 0);
  EXPECT_EQ(plain.log_level, log::Level::info);
  EXPECT_EQ(parse({"codecfs", "a", "b", "-o", "debug"})->options.log_level, log::Level::debug);
}

TEST(Options, TakesWhereObjectsAre) {
  const auto objects_of = [](const char* options) {
    const auto command = parse({"codecfs", "-o", options, "s3://bucket/a", "mnt"});
    EXPECT_TRUE(command) << command.error().reason;
    return command ? command->options.sources.objects : remote::ObjectOptions();
  };
  using enum remote::Addressing;
  EXPECT_EQ(objects_of("ro").addressing, unset);
  EXPECT_EQ(objects_of("addressing=virtual").addressing, host);
  EXPECT_EQ(objects_of("addressing=path,addressing=auto").addressing, automatic);
  EXPECT_EQ(objects_of("addressing=virtual,path_style").addressing, path);
  EXPECT_EQ(objects_of("credential_url=https://host/s3credentials").credential_url, "https://host/s3credentials");
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(objects_of("token_file=a").token_file, here + "/a") << "the daemon has another working directory";
  EXPECT_EQ(objects_of("header_file=a").header_file, here + "/a");
  for (const char* const options : {"addressing=", "addressing=host", "path_style=1", "token_file=", "header_file=",
                                    "credential_url=", "credential_url=host/path", "credential_url=s3://a/b"})
    EXPECT_FALSE(parse({"codecfs", "-o", options, "s3://bucket/a", "mnt"})) << options;
}

TEST(Options, TakesTheFormsForOtherPrograms) {
  const auto adaptation = [](const char* list) { return parse({"codecfs", "a", "b", "-o", list})->options.adaptation; };
  EXPECT_FALSE(parse({"codecfs", "a", "b"})->options.adaptation.is_any());
  EXPECT_EQ(adaptation("strings=fixed").strings, StringForm::fixed);
  EXPECT_EQ(adaptation("chunks=clamped,strings=bytes").strings, StringForm::bytes);
  EXPECT_TRUE(adaptation("chunks=clamped").clamps_chunks);
  EXPECT_FALSE(adaptation("strings=vlen,chunks=stored").is_any());
  for (const char* list : {"view=netcdf", "chunks=stored,view=netcdf"}) {
    EXPECT_TRUE(adaptation(list).suits_netcdf && adaptation(list).clamps_chunks) << list;
    EXPECT_EQ(adaptation(list).strings, StringForm::bytes) << list;
  }
  EXPECT_EQ(adaptation("view=netcdf,strings=fixed").strings, StringForm::fixed);
  EXPECT_FALSE(adaptation("view=netcdf,view=decoded").is_any());
  EXPECT_EQ(parse({"codecfs", "a", "b", "-o", "view=netcdf"})->options.view, fs::View::decoded);
  EXPECT_FALSE(adaptation("strings=fixed,strings=vlen").is_any());
  EXPECT_TRUE(parse({"codecfs", "a", "b", "-o", "coherent,strings=vlen"}));
}

TEST(Options, TakesFilterRulesInBothForms) {
  const auto rules_of = [](const std::vector<const char*>& words) {
    const auto command = parse(words);
    EXPECT_TRUE(command) << command.error().reason;
    const auto rules = set_up_filters(command->filters);
    EXPECT_TRUE(rules) << rules.error().reason;
    const auto spec = [&](const char* name) -> std::string {
      const auto chain = rules->resolve(name);
      return chain ? *filters::print_filter_spec(*chain) : "unchanged";
    };
    return spec("/v") + " " + spec("/g/w") + " " + spec("/x");
  };
  EXPECT_EQ(rules_of({"codecfs", "a", "b"}), "unchanged unchanged unchanged");
  EXPECT_EQ(rules_of({"codecfs", "-F", "v&g/w,1,5|2", "-F", "v,307,9", "a", "b"}), "2|1,5|307,9 2|1,5 unchanged");
  EXPECT_EQ(rules_of({"codecfs", "-F", "v,1,5", "a", "b", "-o", "ro,filter=g/w\\,307\\,9,cache=2M"}),
            "1,5 307,9 unchanged");
  EXPECT_EQ(rules_of({"mount.codecfs", "a", "b", "-o", "filter=\"*,1,5\",filter=v\\,none"}), " 1,5 1,5");
}

TEST(Options, NamesWhatIsWrongWithFilters) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases = {
      {{"codecfs", "-F", "*,307,3.5", "a", "b"}, "-F: character 8 of \"*,307,3.5\": "},
      {{"codecfs", "-F", "v,1,5", "-F", "v", "a", "b"}, "-F: at the end of \"v\": "},
      {{"codecfs", "-o", "filter=*", "a", "b"}, "-o filter: at the end of \"*\": "},
      {{"codecfs", "-o", "filter=v\\,307\\,9x", "a", "b"}, "-o filter: character 8 of \"v,307,9x\": "},
      {{"mount.codecfs", "a", "b", "-o", "filter=*\\,nosuch"}, "-o filter: character 3 of"},
      {{"codecfs", "-o", "builtin=off:nosuch", "a", "b"}, "-o builtin=off:nosuch: nosuch is not a built-in filter"},
      {{"codecfs", "-o", "builtin=off:5", "a", "b"}, "-o builtin=off:5: 5 is not a built-in filter"},
  };
  for (const auto& [words, says] : cases) {
    const auto command = parse(words);
    ASSERT_TRUE(command) << command.error().reason;
    const auto rules = set_up_filters(command->filters);
    ASSERT_FALSE(rules) << says;
    EXPECT_EQ(rules.error().code, EINVAL);
    EXPECT_NE(rules.error().reason.find(says), std::string::npos) << rules.error().reason;
  }
}

TEST(Options, PluginsAndBuiltInFilters) {
  const auto options =
      parse({"codecfs", "a", "b", "-o", "plugin_path=/x:/y,builtin=off:zstd:307,plugin_path=/z"})->filters;
  EXPECT_EQ(options.plugin_path, ":/x:/y:/z");
  EXPECT_TRUE(options.builtin);
  EXPECT_EQ(options.not_builtin, (std::vector<std::string>{"zstd", "307"}));
  EXPECT_FALSE(parse({"codecfs", "a", "b", "-o", "builtin=off"})->filters.builtin);
  EXPECT_TRUE(parse({"codecfs", "a", "b", "-o", "builtin=on"})->filters.builtin);
  EXPECT_TRUE(parse({"codecfs", "a", "b"})->filters.plugins);
  EXPECT_EQ(parse({"codecfs", "a", "b"})->options.max_chunk_bytes, uint64_t{1} << 30);
  EXPECT_EQ(parse({"codecfs", "a", "b", "-o", "max_chunk=24M"})->options.max_chunk_bytes, uint64_t{24} << 20);
  EXPECT_FALSE(parse({"codecfs", "a", "b", "-o", "plugins=off"})->filters.plugins);
  EXPECT_TRUE(parse({"codecfs", "a", "b", "-o", "plugins=on"})->filters.plugins);
}

TEST(Options, NamesWhatIsWrong) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases = {
      {{"codecfs", "-o", "nonsense", "a", "b"}, "nonsense"},
      {{"codecfs", "-o", "cache", "a", "b"}, "cache"},
      {{"codecfs", "-o", "cache=1K", "a", "b"}, "1M"},
      {{"codecfs", "-o", "threads=many", "a", "b"}, "many"},
      {{"codecfs", "-o", "threads=257", "a", "b"}, "257"},
      {{"codecfs", "-o", "idle=0", "a", "b"}, "idle=0: a number from 1"},
      {{"codecfs", "-o", "idle=1h", "a", "b"}, "idle=1h"},
      {{"codecfs", "-o", "log=", "a", "b"}, "log="},
      {{"codecfs", "-o", "loglevel=loud", "a", "b"}, "debug, info, warning or error"},
      {{"codecfs", "-o", "mkdir=yes", "a", "b"}, "mkdir=yes"},
      {{"codecfs", "-o", "portable=yes", "a", "b"}, "portable=yes"},
      {{"codecfs", "-o", "strings=char", "a", "b"}, "strings=char: vlen, fixed or bytes"},
      {{"codecfs", "-o", "strings", "a", "b"}, "strings=vlen|fixed|bytes"},
      {{"codecfs", "-o", "chunks=small", "a", "b"}, "chunks=small: is neither"},
      {{"codecfs", "-o", "strings=fixed,coherent", "a", "b"}, "-o coherent: not with"},
      {{"codecfs", "-o", "ro"}, "usage"},
      {{"codecfs", "-o", "filter=v,307", "a", "b"}, "-o filter: there a comma is written \\,"},
      {{"codecfs", "-o", "filter", "a", "b"}, "filter=VARS,SPEC"},
      {{"codecfs", "-o", "builtin=no", "a", "b"}, "builtin=no"},
      {{"codecfs", "-o", "plugins=none", "a", "b"}, "plugins=none: on or off"},
      {{"codecfs", "-o", "max_chunk=0", "a", "b"}, "max_chunk=0: at least 1M"},
      {{"codecfs", "-o", "max_chunk=2G", "a", "b"}, "max_chunk=2G: at most 2047M"},
      {{"codecfs", "-o", "max_chunk=big", "a", "b"}, "max_chunk=big: not a size"},
      {{"codecfs", "-o", "builtin=off:", "a", "b"}, "off:NAME"},
      {{"mount.codecfs", "a"}, "usage"},
      {{"mount.codecfs", "-x", "a", "b"}, "-x"},
      {{"mount.codecfs", "a", "b", "-o"}, "-o"},
  };
  for (const auto& [words, says] : cases) {
    const auto command = parse(words);
    ASSERT_FALSE(command) << says;
    EXPECT_EQ(command.error().code, EINVAL);
    EXPECT_NE(command.error().reason.find(says), std::string::npos) << command.error().reason;
    EXPECT_EQ(command.error().reason.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace codecfs::cli
