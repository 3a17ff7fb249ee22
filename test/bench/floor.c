/* What two threads can do at best: the entries of a folder alternate between them. For the bench only; it takes no care. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int root;
static char **names;
static long count;

static void take(int folder, const char *name);

static void empty(int fd) {
  DIR *listing = fdopendir(fd);
  for (struct dirent *entry; (entry = readdir(listing));)
    if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) take(fd, entry->d_name);
  closedir(listing);
}

static void take(int folder, const char *name) {
  if (unlinkat(folder, name, 0) == 0) return;
  int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (fd < 0) return;
  empty(fd);
  unlinkat(folder, name, AT_REMOVEDIR);
}

static void *every_other(void *first) {
  for (long i = (long)first; i < count; i += 2) take(root, names[i]);
  return 0;
}

int main(int argc, char **argv) {
  root = open(argv[argc - 1], O_RDONLY | O_DIRECTORY);
  DIR *listing = fdopendir(dup(root));
  for (struct dirent *entry; (entry = readdir(listing));) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (count % 1024 == 0) names = realloc(names, (count + 1024) * sizeof *names);
    names[count++] = strdup(entry->d_name);
  }
  pthread_t other;
  pthread_create(&other, 0, every_other, (void *)1);
  every_other((void *)0);
  pthread_join(other, 0);
  return rmdir(argv[argc - 1]) != 0;
}
