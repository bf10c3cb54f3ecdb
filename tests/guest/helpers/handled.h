/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Errors that the kernel handles itself, in system calls that succeed: netlink answers a request
 * for a family that is not there (ENOENT) by a message, and recvmmsg() finds no second message
 * (EAGAIN).
 */
#define _GNU_SOURCE
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

static int handled_socket(void)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
}

/* One error of each; returns 0 if both were handled. */
static int have_errors_handled(int fd)
{
	struct {
		struct nlmsghdr header;
		struct genlmsghdr generic;
		struct nlattr attribute;
		unsigned short id;
		unsigned short padding;
	} request = {
		.header = {
			.nlmsg_len = sizeof(request),
			.nlmsg_type = GENL_ID_CTRL,
			.nlmsg_flags = NLM_F_REQUEST,
		},
		.generic = { .cmd = CTRL_CMD_GETFAMILY, .version = 1 },
		.attribute = { .nla_len = NLA_HDRLEN + 2, .nla_type = CTRL_ATTR_FAMILY_ID },
		.id = 0xfff0,
	};
	char answers[2][256];
	struct iovec parts[2];
	struct mmsghdr messages[2];

	memset(messages, 0, sizeof(messages));
	for (int i = 0; i < 2; i++) {
		parts[i].iov_base = answers[i];
		parts[i].iov_len = sizeof(answers[i]);
		messages[i].msg_hdr.msg_iov = &parts[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	if (send(fd, &request, sizeof(request), 0) != sizeof(request))
		return 1;
	return recvmmsg(fd, messages, 2, MSG_DONTWAIT, NULL) != 1;
}
