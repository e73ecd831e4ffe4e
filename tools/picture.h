/* Pictures in files and in memory, for `tenon run` and for the examples that look at pictures. */
#ifndef TENON_TOOLS_PICTURE_H
#define TENON_TOOLS_PICTURE_H

#include <stdbool.h>
#include <stddef.h>

/* Rows of red, green, blue: 3 width bytes each. */
typedef struct picture {
  int width, height;
  unsigned char *pixels; /* the holder's to free */
} picture;

enum { PICTURE_WIDEST = 1 << 15 };

/* What pictures become in models: (pixel scale - mean) / std, of red, green and blue. */
typedef struct picture_norm {
  double scale, mean[3], std[3];
  bool bgr; /* blue comes first */
} picture_norm;

/* A part of a picture in pixels, [x0, x1) by [y0, y1). */
typedef struct picture_box {
  double x0, y0, x1, y1;
} picture_box;

typedef struct picture_colour {
  unsigned char red, green, blue;
} picture_colour;

/* Black, of 1 to PICTURE_WIDEST pixels each way; false: no such size, or no memory. */
bool picture_make(picture *p, long long width, long long height);
/* A PNG or a JPEG, transparency on white. false: neither, or the library was not there at build
 * time; p is empty then. */
bool picture_read(const char *path, picture *p);
/* As a PNG; a file that cannot be written whole goes. false: *why says why, until the next call. */
bool picture_write(const picture *p, const char *path, const char **why);

/* The whole picture as a box. */
picture_box picture_all(const picture *p);
/* A channel at a place between pixels, by linear interpolation; pixel 0 lies at 0. Places outside
 * have the colour of the edge. */
double picture_at(const picture *p, double x, double y, int channel);
/* The box as planes [3, height, width], resized by linear interpolation of half-pixel centres. Rows
 * of the planes are `stride` apart. */
void picture_planes(const picture *p, picture_box box, const picture_norm *norm, int width,
                    int height, int stride, float *planes);

/* Places of a map that touch at their sides: their box in places, and the mean of their numbers. */
typedef struct picture_region {
  picture_box box;
  double mean;
} picture_region;
/* Those of numbers over a threshold, in the order of the rows they begin in, to be freed; NULL: no
 * memory. */
picture_region *picture_regions(const double *map, int width, int height, double threshold,
                                size_t *count);

/* Mixes a colour into a pixel: part 1 replaces it. Pixels outside are left out. */
void picture_mix(picture *p, int x, int y, picture_colour colour, double part);
/* Draws the outline of a box, as thick as suits the picture. */
void picture_frame(picture *p, picture_box box, picture_colour colour);

#endif
