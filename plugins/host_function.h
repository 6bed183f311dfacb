/* Looks up functions of the library that called the plugin.
 *
 * A plugin must query the HDF5 or netCDF library that calls it, and one process may contain several (Python packages
 * bring their own, renamed and with hidden symbols). A normal link dependency would load another one, which does not
 * know the caller's handles. So the functions are looked up in the library that contains the caller, then among the
 * program's global symbols. The plugin also loads if there are none. */
#ifndef CODECFS_PLUGINS_HOST_FUNCTION_H
#define CODECFS_PLUGINS_HOST_FUNCTION_H

#include <stdbool.h>

/* Stores the function in *pointer (of any function pointer type). return_address identifies the caller of the
 * plugin. */
bool host_function(const void* return_address, const char* name, void* pointer);

/* For the function that the library calls: sets a variable that is named like the function. */
#define HOST_FUNCTION(name) host_function(__builtin_return_address(0), #name, &name)

#endif
