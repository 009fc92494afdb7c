enable f16;
var<workgroup> shared_v29: array<vec4<f32>, 20>;
var<workgroup> shared_v33: array<vec4<f32>, 320>;
@group(0) @binding(4) var<storage, read_write> v17: array<f16>;
@group(0) @binding(3) var<storage, read> v13: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f16>>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_gemv_f16_sorted(@builtin(workgroup_id) v886: vec3<u32>, @builtin(local_invocation_index) v889: u32, @builtin(local_invocation_id) v899: vec3<u32>) {
let v985 = &v17;
let v986 = &v13;
let v987 = &v9;
let v988 = &v5;
let v989 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v27 = info_var.scalars_usize[6];
let v28 = info_var.scalars_usize[7];
let v871 = &shared_v29;
let v872 = &shared_v33;
var<function> v873_store: array<f32, 4>= array<f32, 4>();
let v873 = &v873_store;
let v39 = u32(4);
let v45 = &(*v873)[v3];
let v46 = f32(0.0);
*v45 = v46;
let v49 = u32(1);
let v51 = &(*v873)[v49];
*v51 = v46;
let v55 = u32(2);
let v57 = &(*v873)[v55];
*v57 = v46;
let v61 = u32(3);
let v63 = &(*v873)[v61];
*v63 = v46;
let v887 = v886[0];
let v66 = u32(v887);
let v68 = v66 * v61;
let v72 = &(*v987)[v68];
let v73 = *v72;
let v74 = u32(v73);
let v76 = v68 + v49;
let v80 = &(*v987)[v76];
let v81 = *v80;
let v82 = u32(v81);
let v84 = v68 + v55;
let v88 = &(*v987)[v84];
let v89 = *v88;
let v90 = u32(v89);
let v888 = v886[1];
let v92 = u32(v888);
let v93 = u32(64);
let v94 = v92 * v93;
let v95 = v74 >= v27;
let v96 = v74 < v28;
let v97 = v95 && v96;
if v97 {
let v99 = u32(16);
for(var v100: u32 = v3; v100 < v22; v100 += v99) {
let v890 = v889;
let v103 = u32(v890);
let v107 = v103 < v99;
if v107 {
let v109 = v103 / v39;
let v111 = v103 % v39;
let v112 = v82 + v109;
let v114 = v90 - v49;
let v115 = min(v112, v114);
let v117 = v39 * v111;
let v118 = v100 + v117;
let v120 = vec4<f32>(v46);
var<function> v875_store: vec4<f32>;
let v875 = &v875_store;
*v875 = v120;
let v122 = v118 < v22;
if v122 {
let v123 = v115 * v22;
let v124 = v123 + v118;
let v126 = v124 / v39;
let v130 = &(*v989)[v126];
let v131 = *v130;
let v132 = vec4<f32>(v131);
*v875 = v132;

}
let v133 = u32(5);
let v134 = v109 * v133;
let v135 = v134 + v111;
let v139 = &(*v871)[v135];
let v140 = *v875;
*v139 = v140;

}
let v141 = v74 - v27;
let v142 = v141 * v21;
let v149 = u32(256);
let v150 = v103 < v149;
if v150 {
let v152 = v103 / v39;
let v154 = v103 % v39;
let v156 = v152 / v93;
let v158 = v152 % v93;
let v159 = v94 + v158;
let v161 = v21 - v49;
let v162 = min(v159, v161);
let v163 = v156 * v21;
let v164 = v142 + v163;
let v165 = v164 + v162;
let v167 = v39 * v154;
let v168 = v100 + v167;
let v170 = vec4<f32>(v46);
var<function> v876_store: vec4<f32>;
let v876 = &v876_store;
*v876 = v170;
let v172 = v168 < v22;
if v172 {
let v173 = v165 * v22;
let v174 = v173 + v168;
let v176 = v174 / v39;
let v180 = &(*v986)[v176];
let v181 = *v180;
let v182 = vec4<f32>(v181);
*v876 = v182;

}
let v183 = u32(5);
let v184 = v152 * v183;
let v185 = v184 + v154;
let v189 = &(*v872)[v185];
let v190 = *v876;
*v189 = v190;

}
let v194 = v103 + v93;
let v196 = v194 < v149;
if v196 {
let v198 = v194 / v39;
let v200 = v194 % v39;
let v202 = v198 / v93;
let v204 = v198 % v93;
let v205 = v94 + v204;
let v207 = v21 - v49;
let v208 = min(v205, v207);
let v209 = v202 * v21;
let v210 = v142 + v209;
let v211 = v210 + v208;
let v213 = v39 * v200;
let v214 = v100 + v213;
let v216 = vec4<f32>(v46);
var<function> v877_store: vec4<f32>;
let v877 = &v877_store;
*v877 = v216;
let v218 = v214 < v22;
if v218 {
let v219 = v211 * v22;
let v220 = v219 + v214;
let v222 = v220 / v39;
let v226 = &(*v986)[v222];
let v227 = *v226;
let v228 = vec4<f32>(v227);
*v877 = v228;

}
let v229 = u32(5);
let v230 = v198 * v229;
let v231 = v230 + v200;
let v235 = &(*v872)[v231];
let v236 = *v877;
*v235 = v236;

}
let v239 = u32(128);
let v240 = v103 + v239;
let v242 = v240 < v149;
if v242 {
let v244 = v240 / v39;
let v246 = v240 % v39;
let v248 = v244 / v93;
let v250 = v244 % v93;
let v251 = v94 + v250;
let v253 = v21 - v49;
let v254 = min(v251, v253);
let v255 = v248 * v21;
let v256 = v142 + v255;
let v257 = v256 + v254;
let v259 = v39 * v246;
let v260 = v100 + v259;
let v262 = vec4<f32>(v46);
var<function> v878_store: vec4<f32>;
let v878 = &v878_store;
*v878 = v262;
let v264 = v260 < v22;
if v264 {
let v265 = v257 * v22;
let v266 = v265 + v260;
let v268 = v266 / v39;
let v272 = &(*v986)[v268];
let v273 = *v272;
let v274 = vec4<f32>(v273);
*v878 = v274;

}
let v275 = u32(5);
let v276 = v244 * v275;
let v277 = v276 + v246;
let v281 = &(*v872)[v277];
let v282 = *v878;
*v281 = v282;

}
let v285 = u32(192);
let v286 = v103 + v285;
let v288 = v286 < v149;
if v288 {
let v290 = v286 / v39;
let v292 = v286 % v39;
let v294 = v290 / v93;
let v296 = v290 % v93;
let v297 = v94 + v296;
let v299 = v21 - v49;
let v300 = min(v297, v299);
let v301 = v294 * v21;
let v302 = v142 + v301;
let v303 = v302 + v300;
let v305 = v39 * v292;
let v306 = v100 + v305;
let v308 = vec4<f32>(v46);
var<function> v879_store: vec4<f32>;
let v879 = &v879_store;
*v879 = v308;
let v310 = v306 < v22;
if v310 {
let v311 = v303 * v22;
let v312 = v311 + v306;
let v314 = v312 / v39;
let v318 = &(*v986)[v314];
let v319 = *v318;
let v320 = vec4<f32>(v319);
*v879 = v320;

}
let v321 = u32(5);
let v322 = v290 * v321;
let v323 = v322 + v292;
let v327 = &(*v872)[v323];
let v328 = *v879;
*v327 = v328;

}
workgroupBarrier();
for(var v332: u32 = v3; v332 < v39; v332 += v49) {
var<function> v881_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v881 = &v881_store;
let v342 = u32(5);
let v348 = &(*v871)[v332];
let v349 = *v348;
let v354 = &(*v881)[v3];
*v354 = v349;
let v361 = v342 + v332;
let v365 = &(*v871)[v361];
let v366 = *v365;
let v371 = &(*v881)[v49];
*v371 = v366;
let v970 = u32(10);
let v378 = v970 + v332;
let v382 = &(*v871)[v378];
let v383 = *v382;
let v388 = &(*v881)[v55];
*v388 = v383;
let v966 = u32(15);
let v395 = v966 + v332;
let v399 = &(*v871)[v395];
let v400 = *v399;
let v405 = &(*v881)[v61];
*v405 = v400;
let v900 = v899[0];
let v407 = u32(v900);
let v411 = v407 * v342;
let v412 = v411 + v332;
let v416 = &(*v872)[v412];
let v417 = *v416;
let v423 = *v45;
let v429 = *v354;
let v430 = v429[0];
let v431 = v417[0];
let v432 = fma(v430, v431, v423);
*v45 = v432;
let v443 = *v45;
let v449 = *v354;
let v450 = v449[1];
let v451 = v417[1];
let v452 = fma(v450, v451, v443);
*v45 = v452;
let v463 = *v45;
let v469 = *v354;
let v470 = v469[2];
let v471 = v417[2];
let v472 = fma(v470, v471, v463);
*v45 = v472;
let v483 = *v45;
let v489 = *v354;
let v490 = v489[3];
let v491 = v417[3];
let v492 = fma(v490, v491, v483);
*v45 = v492;
let v503 = *v51;
let v509 = *v371;
let v510 = v509[0];
let v512 = fma(v510, v431, v503);
*v51 = v512;
let v523 = *v51;
let v529 = *v371;
let v530 = v529[1];
let v532 = fma(v530, v451, v523);
*v51 = v532;
let v543 = *v51;
let v549 = *v371;
let v550 = v549[2];
let v552 = fma(v550, v471, v543);
*v51 = v552;
let v563 = *v51;
let v569 = *v371;
let v570 = v569[3];
let v572 = fma(v570, v491, v563);
*v51 = v572;
let v583 = *v57;
let v589 = *v388;
let v590 = v589[0];
let v592 = fma(v590, v431, v583);
*v57 = v592;
let v603 = *v57;
let v609 = *v388;
let v610 = v609[1];
let v612 = fma(v610, v451, v603);
*v57 = v612;
let v623 = *v57;
let v629 = *v388;
let v630 = v629[2];
let v632 = fma(v630, v471, v623);
*v57 = v632;
let v643 = *v57;
let v649 = *v388;
let v650 = v649[3];
let v652 = fma(v650, v491, v643);
*v57 = v652;
let v663 = *v63;
let v669 = *v405;
let v670 = v669[0];
let v672 = fma(v670, v431, v663);
*v63 = v672;
let v683 = *v63;
let v689 = *v405;
let v690 = v689[1];
let v692 = fma(v690, v451, v683);
*v63 = v692;
let v703 = *v63;
let v709 = *v405;
let v710 = v709[2];
let v712 = fma(v710, v471, v703);
*v63 = v712;
let v723 = *v63;
let v729 = *v405;
let v730 = v729[3];
let v732 = fma(v730, v491, v723);
*v63 = v732;

}
workgroupBarrier();

}
let v902 = v899[0];
let v747 = u32(v902);
let v748 = v94 + v747;
let v751 = v82 < v90;
let v752 = v748 < v21;
let v753 = v751 && v752;
if v753 {
let v759 = *v45;
var<function> v882_store: f32;
let v882 = &v882_store;
*v882 = v759;
let v764 = *v882;
let v765 = f16(v764);
let v766 = v82 * v21;
let v767 = v766 + v748;
let v771 = &(*v985)[v767];
*v771 = v765;

}
let v776 = v82 + v49;
let v782 = v776 < v90;
let v784 = v782 && v752;
if v784 {
let v790 = *v51;
var<function> v883_store: f32;
let v883 = &v883_store;
*v883 = v790;
let v795 = *v883;
let v796 = f16(v795);
let v797 = v776 * v21;
let v798 = v797 + v748;
let v802 = &(*v985)[v798];
*v802 = v796;

}
let v807 = v82 + v55;
let v813 = v807 < v90;
let v815 = v813 && v752;
if v815 {
let v821 = *v57;
var<function> v884_store: f32;
let v884 = &v884_store;
*v884 = v821;
let v826 = *v884;
let v827 = f16(v826);
let v828 = v807 * v21;
let v829 = v828 + v748;
let v833 = &(*v985)[v829];
*v833 = v827;

}
let v838 = v82 + v61;
let v844 = v838 < v90;
let v846 = v844 && v752;
if v846 {
let v852 = *v63;
var<function> v885_store: f32;
let v885 = &v885_store;
*v885 = v852;
let v857 = *v885;
let v858 = f16(v857);
let v859 = v838 * v21;
let v860 = v859 + v748;
let v864 = &(*v985)[v860];
*v864 = v858;

}

}
return;

}
