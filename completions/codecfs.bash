# bash completion for codecfs(8)                           -*- shell-script -*-

_codecfs_filters="none shuffle deflate zstd blosc lz4 bzip2 szip lzf bitshuffle fletcher32"
_codecfs_commands="info verify compare recode convert refs filters status set unmount check recover compact"

# The options of a command, or of a mount.
_codecfs_words_of() {
  case $1 in
    info) echo "-v --verbose --json --plot --html -O --options --help" ;;
    verify | compare) echo "--json -O --options --help" ;;
    recode) echo "--dry-run --estimate --stock-filters -F --filter -O --options --help" ;;
    convert) echo "--format --libver --portable --resume --skip --skip-unsupported --stock-filters -F --filter -O --options --help" ;;
    refs) echo "-o --output --parquet --url -O --options --help" ;;
    filters) echo "--check --parameters -O --options --help" ;;
    status) echo "--json --prometheus --help" ;;
    set | unmount | check | recover | compact) echo "--help" ;;
    *) echo "-o -F -f --foreground --help --version" ;;
  esac
}

# The last part of $1, behind all of the separators in $2, completed with the words in $3.
_codecfs_part() {
  local typed=$1 separators=$2 words=$3 last kept word
  last=${typed##*[$separators]}
  kept=${typed%"$last"}
  COMPREPLY=()
  for word in $words; do
    [[ $word == "$last"* ]] && COMPREPLY+=("$kept$word")
  done
}

# Readline replaces what is behind the last of COMP_WORDBREAKS alone.
_codecfs_trim() {
  local typed=$1 separator i
  for separator in : =; do
    [[ $COMP_WORDBREAKS == *"$separator"* && $typed == *"$separator"* ]] || continue
    local shown=${typed%"${typed##*"$separator"}"}
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$shown"}; done
    typed=${typed##*"$separator"}
  done
}

_codecfs_options() {
  local typed=$1 last kept i
  last=${typed##*,}
  kept=${typed%"$last"}
  case $last in
    builtin=off:*) _codecfs_part "$last" : "shuffle deflate fletcher32 szip zstd blosc lz4 bzip2 lzf bitshuffle" ;;
    builtin=*) _codecfs_part "$last" = "on off off:" ;;
    plugins=*) _codecfs_part "$last" = "off on" ;;
    create=*) _codecfs_part "$last" = "hdf5 zarr zarr3 zip nczarr" ;;
    view=*) _codecfs_part "$last" = "decoded encoded decoded3 encoded3 npy raw netcdf" ;;
    strings=*) _codecfs_part "$last" = "vlen fixed bytes" ;;
    chunks=*) _codecfs_part "$last" = "stored clamped" ;;
    follow=*) _codecfs_part "$last" = "all beneath" ;;
    transport=*) _codecfs_part "$last" = "auto passthrough push read" ;;
    addressing=*) _codecfs_part "$last" = "auto path virtual" ;;
    isolate=*) _codecfs_part "$last" = "on off" ;;
    loglevel=*) _codecfs_part "$last" = "debug info warning error" ;;
    max_chunk=*) _codecfs_part "$last" = "64M 128M 256M 512M 1G" ;;
    cache=* | cache_size=* | dirty=* | index=* | passthrough_size=*) _codecfs_part "$last" = "64M 128M 256M 512M 1G 4G" ;;
    plugin_path=* | cache_dir=*)
      local at=${last##*[=:]}
      COMPREPLY=()
      while IFS= read -r i; do COMPREPLY+=("${last%"$at"}$i"); done < <(compgen -d -- "$at")
      ;;
    log=* | ca_file=* | header_file=* | token_file=*)
      COMPREPLY=()
      while IFS= read -r i; do COMPREPLY+=("${last%%=*}=$i"); done < <(compgen -f -- "${last#*=}")
      ;;
    *=*) COMPREPLY=() ;;
    *)
      _codecfs_part "$last" , "absent= account= addressing= allow_other allow_root anon auto_unmount builtin= ca_file= cache= cache_dir= cache_size= chunks= coherent commit= connections= create= credential_process= credential_url= debug dirty=
        endpoint= filter= follow= header_file= idle= index= isolate= log= loglevel= max_chunk= mkdir nodelete nofail nonempty passthrough_size= path_style
        plugin_path= plugins= portable profile= region= requester_pays retry= ro rw stock-filters strings= threads= token_file= transport= view= default_permissions noatime noexec"
      ;;
  esac
  for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=$kept${COMPREPLY[i]}; done
}

# The mount points of codecfs.
_codecfs_mounts() {
  local point type others
  while read -r _ point type others; do
    [[ $type == fuse.codecfs ]] && printf '%b\n' "${point//\\/\\0}"
  done </proc/self/mounts 2>/dev/null
}

# The words of the line $1 in _codecfs_line, without their quotes; nothing is expanded but ~/ at a beginning.
_codecfs_split() {
  local line=$1 word= quote= has= i c
  _codecfs_line=()
  for ((i = 0; i < ${#line}; i++)); do
    c=${line:i:1}
    if [[ $quote ]]; then
      if [[ $c == "$quote" ]]; then
        quote=
      elif [[ $c == \\ && $quote == '"' && ${line:i+1:1} == [\"\\\$\`] ]]; then
        ((++i))
        word+=${line:i:1}
      else
        word+=$c
      fi
    elif [[ $c == [\"\'] ]]; then
      quote=$c has=yes
    elif [[ $c == \\ ]]; then
      ((++i))
      word+=${line:i:1} has=yes
    elif [[ $c == [[:space:]] ]]; then
      [[ $has || $word ]] && _codecfs_line+=("$word")
      word= has=
    elif [[ $c == '~' && -z $word$has && ${line:i+1:1} == / ]]; then
      word=$HOME has=yes
    else
      word+=$c
    fi
  done
  [[ $has || $word ]] && _codecfs_line+=("$word")
}

# Whether the word behind this one is its value.
_codecfs_takes_value() {
  case $1 in
    -o | -O | --options | -F | --filter | --html | --format | --libver | --skip | --output | --url | --check | --parameters) ;;
    *) return 1 ;;
  esac
}

# The source in the line $1: its first word that names a file or directory, and is no option, or the value of one.
_codecfs_source() {
  _codecfs_split "$1"
  local word before=
  for word in "${_codecfs_line[@]:1}"; do
    if ! _codecfs_takes_value "$before" && [[ $word != -* && -e $word ]]; then
      printf '%s' "$word"
      return
    fi
    before=$word
  done
  return 1
}

# The variables of the source in the line $2, each with a leading slash, and with the groups for $3. Of files and directories
# only: a URL is never opened. What takes more than two seconds is not offered. $1: codecfs, as it was typed.
_codecfs_variables() {
  local program=${1/#\~\//$HOME/} source groups=$3 line list=
  local escaped='\\([^u]|u(00[0189]|007f|d[89a-f]|20[026]))'
  source=$(_codecfs_source "$2") || return
  [[ $source == -* ]] && source=./$source
  command -v timeout >/dev/null || return
  # "groups" is before "variables". Names with control characters, quotes and backslashes are left out.
  timeout 2 "$program" info --json -O plugins=off "$source" </dev/null 2>/dev/null | while IFS= read -r line; do
    case $line in
      '  "groups":'*) list=$groups ;;
      '  "variables":'*) list=yes ;;
      '      "path": "/"'*) ;;
      '      "path": "'*)
        line=${line#*'": "'}
        line=${line%,}
        [[ -z $list || $line =~ $escaped ]] || printf '%b\n' "${line%'"'}"
        ;;
    esac
  done
}

# The names of the variables that $1 begins, as a shell reads them: with a slash where one was typed. $2: the quote that was
# typed. The others as for _codecfs_variables.
_codecfs_offer_variables() {
  local typed=$1 quoted=$2 name
  while IFS= read -r name; do
    [[ $typed == /* ]] || name=${name#/}
    # A name of a file must not become a command. Within quotes, only names that mean themselves are offered.
    case $quoted in
      "'") [[ $name == *\'* ]] && continue ;;
      '"') [[ $name == *[\$\`\"\\!]* ]] && continue ;;
      *) printf -v name %q "$name" ;;
    esac
    [[ $name == "$typed"* ]] && COMPREPLY+=("$name")
  done < <(_codecfs_variables "$3" "$4" "$5")
  [[ $quoted ]] || _codecfs_trim "$typed"
}

# The number of the word at the end of $1 behind the command, without options and their values: 1 for the source.
_codecfs_place() {
  _codecfs_split "$1"
  local word before= place=1
  for word in "${_codecfs_line[@]:2}"; do
    _codecfs_takes_value "$before" || [[ $word == -* ]] || ((++place))
    before=$word
  done
  return "$place"
}

_codecfs() {
  # The word as it was typed, whatever readline has split it at (':', '=').
  local line=${COMP_LINE:0:COMP_POINT} program=$1 rest=
  local typed=${line##*[[:space:]]} before=${line%"${line##*[[:space:]]}"} i
  before=${before%"${before##*[![:space:]]}"}
  before=${before##*[[:space:]]}
  local quoted=
  [[ $typed == [\'\"]* ]] && quoted=${typed:0:1} typed=${typed:1}
  # All words, with an empty one at the cursor.
  [[ ${COMP_LINE:COMP_POINT} == *[[:space:]]* ]] && rest=" ${COMP_LINE:COMP_POINT}" && rest=${rest#*[[:space:]]*[[:space:]]}
  local others="${line%"${line##*[[:space:]]}"} '' $rest" place
  COMPREPLY=()
  compopt +o nospace 2>/dev/null
  # The command, which is the first word.
  local first=${line#"${line%%[[:space:]]*}"} command=
  first=${first#"${first%%[![:space:]]*}"}
  [[ $first == *[[:space:]]* ]] && command=${first%%[[:space:]]*}
  [[ $command == refs && $before == -o ]] && before=
  case $before in
    --format)
      _codecfs_part "$typed" ' ' "hdf5 zarr zarr3 zip nczarr"
      return
      ;;
    --libver)
      _codecfs_part "$typed" ' ' "v110 latest"
      return
      ;;
    -o | -O | --options)
      _codecfs_options "$typed"
      compopt -o nospace 2>/dev/null
      [[ $quoted ]] || _codecfs_trim "$typed"
      return
      ;;
    -F | --filter)
      if [[ $typed == *,* ]]; then
        if [[ ${typed##*|} == *,*,* || (${typed##*|} == *,* && $typed == *\|*) ]]; then return; fi
        _codecfs_part "$typed" ',|' "$_codecfs_filters"
      else
        _codecfs_part "$typed" ',' "none *,"
        # In a rule, "&" stands between names, and a name in a group begins with a slash.
        local name kept=
        [[ $typed == *\&* ]] && kept=${typed%"${typed##*&}"}
        while IFS= read -r name; do
          [[ $name == *[^[:alnum:]_./:@%+-]* ]] && continue  # with a meaning in rules, or to the shell
          [[ ${name#/} == */* || ${typed##*&} == /* ]] || name=${name#/}
          [[ $name == "${typed##*&}"* ]] && COMPREPLY+=("$kept$name,")
        done < <(_codecfs_variables "$program" "$others" "")
        [[ $quoted ]] || _codecfs_trim "$typed"
      fi
      compopt -o nospace 2>/dev/null
      return
      ;;
    --skip)
      [[ $command == convert ]] && _codecfs_offer_variables "$typed" "$quoted" "$program" "$others" yes
      return
      ;;
  esac
  if [[ $typed == -* ]]; then
    _codecfs_part "$typed" ' ' "$(_codecfs_words_of "$command")"
    return
  fi
  _codecfs_place "${line%"${line##*[[:space:]]}"}"
  place=$?
  if [[ $command == info && $place == 2 ]]; then
    _codecfs_offer_variables "$typed" "$quoted" "$program" "$others" yes
    return
  fi
  if [[ $command == set && $place == 2 ]]; then
    _codecfs_part "$typed" '|' "$_codecfs_filters"
    compopt -o nospace 2>/dev/null
    return
  fi
  compopt -o filenames 2>/dev/null
  case $command in
    status | set | unmount | -u | --unmount)
      while IFS= read -r i; do [[ $i == "$typed"* ]] && COMPREPLY+=("$i"); done < <(_codecfs_mounts)
      # Mount points are absolute; other paths to them are those of directories.
      [[ $typed ]] && while IFS= read -r i; do
        [[ " ${COMPREPLY[*]} " == *" $i "* ]] || COMPREPLY+=("$i")
      done < <(compgen -d -- "$typed")
      return
      ;;
  esac
  while IFS= read -r i; do COMPREPLY+=("$i"); done < <(compgen -f -- "$typed")
  [[ $first == "$typed" ]] && while IFS= read -r i; do COMPREPLY+=("$i"); done < <(compgen -W "$_codecfs_commands" -- "$typed")
}

complete -F _codecfs codecfs
