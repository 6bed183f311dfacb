# fish completion for codecfs(8)

set -g __codecfs_filters none shuffle deflate zstd blosc lz4 bzip2 szip lzf bitshuffle fletcher32

# The command, which is the first word.
function __codecfs_command
    set -l words (commandline -opc)
    if set -q words[2]
        echo $words[2]
    end
end

function __codecfs_is
    set -l command (__codecfs_command)
    set -q command[1]; and contains -- $command $argv
end

# Whether the line is one of a mount: without a command.
function __codecfs_mounts_source
    not __codecfs_is $__codecfs_commands
end

# The words behind the command without options and their values; those before the cursor.
function __codecfs_places
    set -l before
    for word in (commandline -opc)[3..]
        switch "$before"
            case -o -O --options -F --filter --html --format --libver --skip --output --url --check --parameters
            case '*'
                string match -q -- '-*' $word; or echo $word
        end
        set before $word
    end
end

function __codecfs_place
    test (count (__codecfs_places)) -eq $argv[1]
end

# The word at the cursor without its quote.
function __codecfs_token
    string replace -r '^[\'"]' '' -- (commandline -ct)
end

# The mount points of codecfs; another path to one is that of a directory.
function __codecfs_mounts
    for line in (cat /proc/self/mounts 2>/dev/null)
        set -l fields (string split ' ' -- $line)
        if test "$fields[3]" = fuse.codecfs
            printf '%b\n' (string replace -a '\\' '\\0' -- $fields[2])
        end
    end
    if test -n (__codecfs_token)
        __fish_complete_directories (commandline -ct) ''
    end
end

# The source in this line: its first word that names a file or directory, and is no option, or the value of one.
function __codecfs_source
    set -l at (math (count (commandline -opc)) + 1)
    set -l words (commandline -op)
    set -l before
    for i in (seq 2 (count $words))
        switch "$before"
            case -o -O --options -F --filter --html --format --libver --skip --output --url --check --parameters
            case '*'
                set -l word (string replace -r '^~/' "$HOME/" -- $words[$i])
                if test $i -ne $at; and not string match -q -- '-*' $word; and test -e "$word"
                    echo $word
                    return
                end
        end
        set before $words[$i]
    end
    return 1
end

# The variables of the source, each with a leading slash, and with the groups where an argument is given. Of files and
# directories only: a URL is never opened. What takes more than two seconds is not offered.
function __codecfs_variables
    set -l program (string replace -r '^~/' "$HOME/" -- (commandline -op)[1])
    set -l source (__codecfs_source); or return
    string match -q -- '-*' $source; and set source ./$source
    command -q timeout; or return
    set -l list $argv[1]
    # "groups" is before "variables". Names with control characters, quotes and backslashes are left out.
    for line in (timeout 2 $program info --json -O plugins=off $source </dev/null 2>/dev/null)
        switch $line
            case '  "groups":*'
                set list $argv[1]
            case '  "variables":*'
                set list yes
            case '      "path": "/"*'
            case '      "path": "*'
                test -n "$list"; or continue
                string match -q -r -- '\\\\([^u]|u(00[0189]|007f|d[89a-f]|20[026]))' $line; and continue
                printf '%b\n' (string replace -r '^      "path": "(.*)",?$' '$1' -- $line)
        end
    end
end

# As they are typed: with a slash where one was typed.
function __codecfs_offer_variables
    if string match -q -- '/*' (__codecfs_token)
        __codecfs_variables yes
    else
        __codecfs_variables yes | string replace -r '^/' ''
    end
end

# What is typed before the last of the separators in the first argument, with each of the others behind it.
function __codecfs_part
    set -l kept (string match -r -- "^.*[$argv[1]]" (__codecfs_token))
    set -l words $argv[2..]
    set -q words[1]; and printf '%s\n' "$kept"$words
end

# Filters of a variable: shuffle|zstd.
function __codecfs_spec
    __codecfs_part '|' $__codecfs_filters
end

# A filter rule: temperature&/group/v,shuffle|zstd.
function __codecfs_rule
    set -l typed (__codecfs_token)
    if string match -q -- '*,*' $typed
        string match -q -r -- '(,.*,|\|.*,)[^|]*$' $typed; or __codecfs_part ',|' $__codecfs_filters
        return
    end
    string match -q -- '*&*' $typed; or printf '%s\n' '*,' none
    # Between names stands "&"; a name in a group begins with a slash.
    for name in (__codecfs_variables)
        string match -q -r -- '[,&|*\s\'"$`]' $name; and continue
        set -l last (string replace -r '^.*&' '' -- $typed)
        if not string match -q -- '/*' $last; and not string match -q -- '/*/*' $name
            set name (string replace -r '^/' '' -- $name)
        end
        __codecfs_part '&' $name,
    end
end

# Mount options: ro,view=encoded.
function __codecfs_options
    set -l typed (__codecfs_token)
    set -l kept (string match -r -- '^.*,' $typed)
    set -l last (string replace -r '^.*,' '' -- $typed)
    set -l values
    switch $last
        case 'builtin=off:*'
            __codecfs_part ':' shuffle deflate fletcher32 szip zstd blosc lz4 bzip2 lzf bitshuffle
            return
        case 'addressing=*'
            set values auto path virtual
        case 'builtin=*'
            set values on off off:
        case 'cache=*'
            set values 64M 128M 256M 512M 1G 4G
        case 'cache_size=*'
            set values 1G 10G 100G
        case 'chunks=*'
            set values stored clamped
        case 'absent=*'
            set values 403
        case 'create=*'
            set values hdf5 zarr zarr3 zip nczarr
        case 'dirty=*'
            set values 64M 128M 256M 512M 1G 4G
        case 'follow=*'
            set values all beneath
        case 'index=*'
            set values 32M 128M 512M
        case 'isolate=*'
            set values on off
        case 'loglevel=*'
            set values debug info warning error
        case 'max_chunk=*'
            set values 64M 128M 256M 512M 1G
        case 'passthrough_size=*'
            set values 64M 256M 1G 4G
        case 'plugins=*'
            set values off on
        case 'strings=*'
            set values vlen fixed bytes
        case 'transport=*'
            set values auto passthrough push read
        case 'view=*'
            set values decoded encoded decoded3 encoded3 npy raw netcdf
        case 'ca_file=*' 'header_file=*' 'log=*' 'token_file=*' 'cache_dir=*' 'plugin_path=*'
            __codecfs_paths $kept (string replace -r '=.*' '=' -- $last) (string replace -r '^[^=]*=' '' -- $last)
            return
        case '*=*'
            return
    end
    if set -q values[1]
        __codecfs_part '=' $values
        return
    end
    for i in (seq 1 2 (count $__codecfs_mount_options))
        printf '%s\t%s\n' "$kept$__codecfs_mount_options[$i]" $__codecfs_mount_options[(math $i + 1)]
    end
end

# Files and directories behind what was typed.
function __codecfs_paths
    set -l path $argv[-1]
    set -l kept (string join '' -- $argv[..-2])
    set -l list (string match -r -- '^.*:' $path)
    for found in (complete -C "'' "(string escape -- (string replace -r '^.*:' '' -- $path)) | string replace -r '\t.*' '')
        printf '%s\n' "$kept$list$found"
    end
end

set -g __codecfs_mount_options \
    addressing= 'where s3:// requests name the bucket' \
    allow_other 'let others use the mount' \
    allow_root 'let root use the mount' \
    auto_unmount 'unmount when the daemon dies' \
    builtin= 'take plugins instead of built-in filters' \
    ca_file= 'certificates that https trusts' \
    cache= 'decoded chunks kept in memory' \
    cache_dir= 'keep what is read of files in object stores here' \
    cache_size= 'most bytes of that directory' \
    chunks= 'chunks that are longer than the array' \
    absent= 'what may not be read is absent' \
    account= 'storage account of az://' \
    anon 'no credentials for s3://, gs:// and az://' \
    coherent 'other programs change the Zarr directory' \
    commit= 'seconds until closed files are durable' \
    connections= 'requests to an object store at a time' \
    create= 'make an empty source where there is none' \
    credential_process= 'program that prints keys, a token or a signature' \
    credential_url= 'where keys of s3:// come from' \
    debug 'log every request' \
    default_permissions 'the kernel checks permissions' \
    dirty= 'changed chunks kept in memory' \
    endpoint= 'server of s3://, gs:// or az://' \
    filter= 'filter rule' \
    follow= 'which files HDF5 files may refer to' \
    header_file= 'headers that a web server wants' \
    idle= 'close the source when it was not used for so long' \
    log= 'append messages to a file' \
    index= 'places of chunks kept in memory' \
    isolate= 'whether libhdf5 runs in a process of its own' \
    loglevel= 'least that is logged' \
    max_chunk= 'largest chunk' \
    mkdir 'make the mount point' \
    noatime 'do not keep access times' \
    noexec 'no programs' \
    nodelete 'variables and groups cannot be removed' \
    nofail 'no failure where there is no source' \
    nonempty 'mount on a directory that is not empty' \
    path_style 'the same as addressing=path' \
    profile= 'profile of ~/.aws for s3://' \
    region= 'region of the bucket' \
    requester_pays 'agree to pay for requests' \
    retry= 'seconds for which failed requests are repeated' \
    passthrough_size= 'memory for chunks that are passed through' \
    plugins= 'load plugins' \
    plugin_path= 'directories of filter plugins' \
    stock-filters 'HDF5: deflate in place of filters that need a plugin' \
    portable 'codecs that every reader of Zarr v3 has, in the view encoded3' \
    ro 'read-only' \
    rw 'writable' \
    strings= 'form of strings' \
    threads= 'threads that serve requests' \
    token_file= 'token that a web server wants' \
    transport= 'how decoded chunks reach readers' \
    view= 'view in the mount point'

set -g __codecfs_commands info verify compare recode convert refs filters status set unmount check recover compact

complete -c codecfs -n 'test (count (commandline -opc)) -eq 1' -a '
    info\\t"print variables with their types, shapes, filters and sizes"
    verify\\t"read everything and report what is damaged"
    compare\\t"report how two datasets differ"
    recode\\t"change the filters of variables in place"
    convert\\t"copy a dataset into a new one of another format"
    refs\\t"print kerchunk references"
    filters\\t"list the filters that can be used, or try a plugin library"
    status\\t"print what mounts are doing"
    set\\t"change the filters of a variable in a mount"
    unmount\\t"store everything and unmount"
    check\\t"report whether changes wait in a log"
    recover\\t"store the changes of a log in the source"
    compact\\t"rewrite a file without unused space"
'

# A mount.
complete -c codecfs -n __codecfs_mounts_source -s o -x -a '(__codecfs_options)' -d 'mount options'
complete -c codecfs -n __codecfs_mounts_source -s F -x -a '(__codecfs_rule)' -d 'filter rule'
complete -c codecfs -n __codecfs_mounts_source -s f -l foreground -d 'stay in the foreground, log to stderr'
complete -c codecfs -n __codecfs_mounts_source -s V -l version -d 'print versions'
complete -c codecfs -s h -l help -d 'print the options'

# Options that several commands have.
complete -c codecfs -n '__codecfs_is info verify compare recode convert refs filters' -s O -l options -x -a '(__codecfs_options)' -d 'options of a mount'
complete -c codecfs -n '__codecfs_is recode convert' -s F -l filter -x -a '(__codecfs_rule)' -d 'filter rule'
complete -c codecfs -n '__codecfs_is recode convert' -l stock-filters -d 'HDF5: deflate in place of filters that need a plugin'
complete -c codecfs -n '__codecfs_is info verify compare status' -l json -d 'print JSON'

complete -c codecfs -n '__codecfs_is info' -s v -l verbose -d 'with attributes, dimensions and first values'
complete -c codecfs -n '__codecfs_is info' -l plot -d 'draw the variable'
complete -c codecfs -n '__codecfs_is info' -l html -r -d 'write a page with pictures'
complete -c codecfs -n '__codecfs_is info; and __codecfs_place 1' -f -a '(__codecfs_offer_variables)'

complete -c codecfs -n '__codecfs_is recode' -l dry-run -d 'only print what would change'
complete -c codecfs -n '__codecfs_is recode' -l estimate -d 'only measure what filters would gain'

complete -c codecfs -n '__codecfs_is convert' -l format -x -a 'hdf5 zarr zarr3 zip nczarr' -d 'of the new dataset'
complete -c codecfs -n '__codecfs_is convert' -l libver -x -a 'v110 latest' -d 'versions of a new HDF5 file'
complete -c codecfs -n '__codecfs_is convert' -l portable -d 'only codecs that every reader of Zarr v3 has'
complete -c codecfs -n '__codecfs_is convert' -l resume -d 'go on with an interrupted conversion'
complete -c codecfs -n '__codecfs_is convert' -l skip -x -a '(__codecfs_offer_variables)' -d 'leave this variable, group or attribute out'
complete -c codecfs -n '__codecfs_is convert' -l skip-unsupported -d 'leave out what the new format has no form for'

complete -c codecfs -n '__codecfs_is refs' -s o -l output -r -d 'write to this file or directory'
complete -c codecfs -n '__codecfs_is refs' -l parquet -d 'make a directory of Parquet files'
complete -c codecfs -n '__codecfs_is refs' -l url -x -d 'how readers name the source'

complete -c codecfs -n '__codecfs_is filters' -l check -r -d 'try this plugin library'
complete -c codecfs -n '__codecfs_is filters' -l parameters -x -d 'of the filter that is tried'

complete -c codecfs -n '__codecfs_is status' -l prometheus -d 'print text for Prometheus'
complete -c codecfs -n '__codecfs_is status set unmount; and __codecfs_place 0' -f -a '(__codecfs_mounts)'
complete -c codecfs -n '__codecfs_is set; and __codecfs_place 1' -f -a '(__codecfs_spec)'
