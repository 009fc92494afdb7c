@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_softmax_masked(@builtin(workgroup_id) v331: vec3<u32>, @builtin(num_workgroups) v333: vec3<u32>, @builtin(local_invocation_index) v340: u32) {
let v361 = &v17;
let v362 = &v13;
let v363 = &v9;
let v364 = &v5;
let v365 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v332 = v331[2];
let v263 = u32(v332);
let v334 = v333[1];
let v265 = u32(v334);
let v266 = v263 * v265;
let v335 = v333[0];
let v268 = u32(v335);
let v269 = v266 * v268;
let v336 = v331[1];
let v271 = u32(v336);
let v274 = v271 * v268;
let v275 = v269 + v274;
let v338 = v331[0];
let v277 = u32(v338);
let v278 = v275 + v277;
let v358 = u32(64);
let v281 = v278 * v358;
let v341 = v340;
let v283 = u32(v341);
let v284 = v281 + v283;
let v25 = v284 < v21;
if v25 {
let v27 = v284 * v22;
let v29 = v284 * v23;
let v30 = f32(-3.4028234663852886e38);
var<function> v244_store: f32;
let v244 = &v244_store;
*v244 = v30;
let v34 = u32(1);
for(var v35: u32 = v3; v35 < v22; v35 += v34) {
let v40 = &(*v364)[v35];
let v41 = *v40;
let v42 = u32(0);
let v43 = v41 != v42;
if v43 {
let v44 = v27 + v35;
let v48 = &(*v365)[v44];
let v49 = *v48;
let v50 = *v244;
let v51 = max(v50, v49);
*v244 = v51;

}

}
let v52 = f32(0.0);
var<function> v246_store: f32;
let v246 = &v246_store;
*v246 = v52;
for(var v57: u32 = v3; v57 < v22; v57 += v34) {
let v62 = &(*v364)[v57];
let v63 = *v62;
let v64 = u32(0);
let v65 = v63 != v64;
if v65 {
let v66 = v27 + v57;
let v70 = &(*v365)[v66];
let v71 = *v70;
let v72 = *v244;
let v73 = v71 - v72;
let v74 = exp(v73);
let v75 = *v246;
let v76 = v75 + v74;
*v246 = v76;

}

}
for(var v79: u32 = v3; v79 < v22; v79 += v34) {
var<function> v249_store: f32;
let v249 = &v249_store;
*v249 = v52;
let v87 = &(*v364)[v79];
let v88 = *v87;
let v89 = u32(0);
let v90 = v88 != v89;
if v90 {
let v91 = v27 + v79;
let v95 = &(*v365)[v91];
let v96 = *v95;
let v97 = *v244;
let v98 = v96 - v97;
let v99 = exp(v98);
let v100 = *v246;
let v101 = v99 / v100;
*v249 = v101;

}
let v102 = v27 + v79;
let v106 = &(*v361)[v102];
let v107 = *v249;
*v106 = v107;

}
let v108 = u32(4294967295);
var<function> v250_store: u32;
let v250 = &v250_store;
*v250 = v108;
var<function> v251_store: u32;
let v251 = &v251_store;
*v251 = v3;
var<function> v252_store: f32;
let v252 = &v252_store;
*v252 = v52;
var<function> v253_store: f32;
let v253 = &v253_store;
*v253 = v52;
for(var v122: u32 = v3; v122 < v23; v122 += v34) {
var<function> v255_store: u32;
let v255 = &v255_store;
*v255 = v22;
let v125 = u32(0);
var<function> v256_store: u32;
let v256 = &v256_store;
*v256 = v125;
for(var v130: u32 = v3; v130 < v22; v130 += v34) {
let v132 = v27 + v130;
let v136 = &(*v365)[v132];
let v137 = *v136;
let v138 = bitcast<u32>(v137);
let v139 = u32(2147483648);
let v140 = v138 == v139;
let v142 = select(v138, v125, v140);
let v143 = u32(31);
let v144 = v142 >> u32(v143);
let v145 = u32(1);
let v146 = v144 == v145;
let v147 = ~v142;
let v149 = v142 | v139;
let v150 = select(v149, v147, v146);
let v151 = u32(2147483647);
let v152 = v142 & v151;
let v153 = u32(2139095040);
let v154 = v152 > v153;
let v156 = select(v150, v125, v154);
let v157 = *v250;
let v158 = v156 < v157;
let v160 = v156 == v157;
let v161 = *v251;
let v162 = v130 > v161;
let v163 = v160 && v162;
let v164 = v158 || v163;
let v165 = *v255;
let v166 = v165 == v22;
let v167 = *v256;
let v168 = v156 > v167;
let v169 = v166 || v168;
let v173 = &(*v364)[v130];
let v174 = *v173;
let v176 = v174 != v125;
var<function> v258_store: bool;
let v258 = &v258_store;
if v176 {
*v258 = v164;

} else {
let v178 = false;
*v258 = v178;

}
let v179 = *v258;
var<function> v259_store: bool;
let v259 = &v259_store;
if v179 {
*v259 = v169;

} else {
let v181 = false;
*v259 = v181;

}
let v182 = *v259;
if v182 {
*v255 = v130;
*v256 = v156;

}

}
let v183 = *v255;
let v184 = u32(v183);
let v185 = v29 + v122;
let v189 = &(*v363)[v185];
*v189 = v184;
var<function> v260_store: f32;
let v260 = &v260_store;
*v260 = v52;
let v193 = *v255;
let v194 = v193 < v22;
if v194 {
let v195 = *v256;
*v250 = v195;
let v196 = *v255;
*v251 = v196;
let v197 = *v255;
let v198 = v27 + v197;
let v202 = &(*v365)[v198];
let v203 = *v202;
let v205 = v122 == v3;
if v205 {
*v252 = v203;

}
let v206 = *v252;
let v207 = v203 - v206;
let v208 = exp(v207);
*v260 = v208;

}
let v213 = &(*v362)[v185];
let v214 = *v260;
*v213 = v214;
let v215 = *v253;
let v217 = v215 + v214;
*v253 = v217;

}
for(var v220: u32 = v3; v220 < v23; v220 += v34) {
let v222 = v29 + v220;
let v226 = &(*v363)[v222];
let v227 = *v226;
let v228 = u32(v22);
let v229 = v227 < v228;
if v229 {
let v234 = &(*v362)[v222];
let v235 = *v234;
let v236 = *v253;
let v237 = v235 / v236;
*v234 = v237;

}

}

}
return;

}
