/* SPDX-License-Identifier: BSD-3-Clause */
/* In the place of oob_pmix.c where there is no PMIx. */
#include "bootstrap.h"

#include <string.h>

int vbn_oob_pmix(struct vbn_oob *oob, struct vbn_error *err)
{
    memset(oob, 0, sizeof(*oob));
    return vbn_fail(err, VBN_ERR_UNREACHABLE,
                    "this process was launched by a PMIx runtime, but Verbena was built without "
                    "PMIx; build it where PMIx's headers are (Debian package: libpmix-dev)");
}
