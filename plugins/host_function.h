/* Functions of the library that called us.
 *
 * A plugin has to ask the HDF5 or netCDF library that calls it about the dataset at hand, and one process may hold
 * several (Python packages bring their own, under names of their own, with their symbols hidden from each other). An
 * ordinary link dependency would load another one, which knows nothing of the caller's handles. So the functions are
 * looked up in the library that the call came from, then among the program's global symbols; where there are none the
 * plugin still loads. */
#ifndef CODECFS_PLUGINS_HOST_FUNCTION_H
#define CODECFS_PLUGINS_HOST_FUNCTION_H

#include <stdbool.h>

/* The function in *pointer (of any function pointer type). return_address says who called the plugin. */
bool host_function(const void* return_address, const char* name, void* pointer);

/* For use in the function that the library calls: sets a variable that is named like the function. */
#define HOST_FUNCTION(name) host_function(__builtin_return_address(0), #name, &name)

#endif
